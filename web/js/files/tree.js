/**
 * The tree of a session's files. Directories are loaded when they are opened, and only the rows in
 * sight exist.
 *
 * @module
 */

import { h, icon, PATHS } from "../ui/elements.js";
import { VirtualList } from "../ui/virtual-list.js";
import { visibleLine } from "../ui/visible-text.js";
import { joinPath, parentPath } from "./address.js";
import { listDirectory } from "./file-api.js";

/** @typedef {import("../gateway.js").FileEntry} FileEntry */
/** @typedef {{ entries: FileEntry[], more: string | null, loading?: Promise<void>, problem?: string }} Directory */
/**
 * A row of the tree. One without an entry says something about its directory.
 *
 * @typedef {{ key: string, height: number, path: string, level: number, entry?: FileEntry, found?: boolean, text?: string, load?: boolean }} TreeRow
 */

const FINGER = matchMedia("(pointer: coarse)");

/** How long letters belong to one word when a name is typed, in milliseconds. */
const TYPING_PAUSE = 700;

/** How many open directories are read again when something may have changed. */
const MAX_REFRESHED = 40;

/** What a file is drawn with. */
const FILE = "M5 3h7l3 3v11H5zM12 3v3h3";

export class FileTree {
  /**
   * @param {string} session
   * @param {{ open: (path: string) => void, choose: (row: TreeRow) => void, rename: (row: TreeRow) => void, remove: (row: TreeRow) => void, menu: (row: TreeRow, anchor: HTMLElement) => void, leave: () => void }} actions
   */
  constructor(session, actions) {
    this.session = session;
    this.actions = actions;
    /** @type {Map<string, Directory>} */ this.directories = new Map();
    /** @type {Set<string>} */ this.expanded = new Set([""]);
    /** Paths that match what someone looks for, in place of the tree. @type {string[] | undefined} */
    this.found = undefined;
    /** The path of the row that the keyboard is at. */
    this.active = "";
    /** The file that is shown. */
    this.shown = "";
    this.typed = { text: "", at: 0 };
    this.list = h("div", { role: "tree", "aria-label": "Files" });
    this.element = h("div", { class: "tree", tabindex: "0" }, this.list);
    /** @type {VirtualList<TreeRow>} */
    this.rows = new VirtualList(this.list, this.element, (row) => this.#draw(row));
    this.list.addEventListener("keydown", (event) => this.#key(event));
    // The list is one stop of the tab key: from outside it leads to the active row.
    this.element.addEventListener("focusin", (event) => {
      if (event.target === this.element) this.focus();
      this.element.tabIndex = -1;
    });
    this.element.addEventListener("focusout", (event) => {
      if (!this.element.contains(/** @type {Node | null} */ (event.relatedTarget)))
        this.element.tabIndex = 0;
    });
    void this.load("");
  }

  /** Moves the focus to the active row, or to the first one. */
  focus() {
    const at = this.rows.rows.findIndex((it) => it.path === this.active && it.entry);
    this.rows.focus(Math.max(0, at));
  }

  /** Loads a directory, or its next page. @param {string} path @param {boolean} [next] */
  load(path, next = false) {
    const known = this.directories.get(path);
    if (known?.loading) return known.loading;
    /** @type {Directory} */
    const directory = known ?? { entries: [], more: null };
    this.directories.set(path, directory);
    directory.loading = listDirectory(this.session, path, next ? directory.more : undefined)
      .then((page) => {
        directory.entries = next ? [...directory.entries, ...page.entries] : page.entries;
        directory.more = page.more ?? null;
        directory.problem = undefined;
      })
      .catch((problem) => {
        directory.problem = problem.message;
        directory.more = null;
      })
      .finally(() => {
        directory.loading = undefined;
        this.draw();
      });
    this.draw();
    return directory.loading;
  }

  /** Reads all open directories again. */
  async refresh() {
    const open = [...this.directories.keys()].filter((it) => this.#isOpen(it));
    for (const path of this.directories.keys())
      if (!open.includes(path)) this.directories.delete(path);
    await Promise.all(open.slice(0, MAX_REFRESHED).map((it) => this.#reload(it)));
  }

  /** Reads as many entries again as are known. @param {string} path */
  async #reload(path) {
    const directory = this.directories.get(path);
    if (!directory || directory.loading) return;
    /** @type {FileEntry[]} */ const entries = [];
    /** @type {string | null} */ let after = null;
    try {
      do {
        /** @type {import("../gateway.js").FileList} */
        const page = await listDirectory(this.session, path, after);
        entries.push(...page.entries);
        after = page.more ?? null;
      } while (after && entries.length < directory.entries.length);
      if (this.directories.get(path) !== directory || directory.loading) return;
      Object.assign(directory, { entries, more: after, problem: undefined });
    } catch (problem) {
      const { status, message } = /** @type {import("../api.js").Problem} */ (problem);
      // While the server cannot be reached, what is known stays.
      if (status === 0) return;
      Object.assign(directory, { entries: [], more: null, problem: message });
    }
    this.draw();
  }

  /** Opens the directories above a file and marks it as the one that is shown. @param {string} path */
  async reveal(path) {
    this.shown = path;
    if (path) this.active = path;
    for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
      const directory = path.slice(0, at);
      this.expanded.add(directory);
      if (!this.directories.has(directory)) await this.load(directory);
    }
    await this.directories.get("")?.loading;
    if (this.shown !== path) return;
    this.draw();
    const index = this.rows.rows.findIndex((it) => it.path === path && it.entry);
    if (index >= 0) this.rows.reveal(index);
  }

  /** Shows what was found in place of the tree, or the tree again. @param {string[] | undefined} paths */
  showFound(paths) {
    this.found = paths;
    this.draw();
  }

  /** Whether a directory and all above it are open. @param {string} path */
  #isOpen(path) {
    for (let it = path; it; it = parentPath(it)) if (!this.expanded.has(it)) return false;
    return true;
  }

  draw() {
    /** @type {TreeRow[]} */ const rows = [];
    const height = FINGER.matches ? 2.75 : 1.8;
    if (this.found) {
      for (const path of this.found)
        rows.push({ key: path, height, path, level: 1, found: true, entry: foundEntry(path) });
      if (!rows.length)
        rows.push({ key: "/none", height, path: "", level: 1, text: "No file has such a name." });
    } else this.#add(rows, "", 1, height);
    this.rows.show(rows);
  }

  /** @param {TreeRow[]} rows @param {string} path @param {number} level @param {number} height */
  #add(rows, path, level, height) {
    const directory = this.directories.get(path);
    if (!directory) return;
    for (const entry of directory.entries) {
      const own = joinPath(path, entry.name);
      rows.push({ key: own, height, path: own, level, entry });
      if (entry.kind === "directory" && this.expanded.has(own))
        this.#add(rows, own, level + 1, height);
    }
    const say = (/** @type {string} */ text, load = false) =>
      rows.push({ key: `${path}//${text}`, height, path, level, text, load });
    if (directory.problem) say(directory.problem);
    else if (directory.more) say("Loading more…", true);
    else if (directory.loading && !directory.entries.length) say("Loading…");
    else if (!directory.entries.length) say("Empty");
  }

  /** @param {TreeRow} row */
  #draw(row) {
    if (row.load) queueMicrotask(() => void this.load(row.path, true));
    const { entry } = row;
    if (!entry)
      return h(
        "div",
        { class: "tree-note", role: "treeitem", "aria-level": row.level, "aria-disabled": "true" },
        row.text,
      );
    const isDirectory = entry.kind === "directory";
    const name = visibleLine(row.found ? row.path : entry.name);
    const cut = name.lastIndexOf("/") + 1;
    const element = h(
      "button",
      {
        type: "button",
        role: "treeitem",
        class: `tree-row${entry.ignored ? " ignored" : ""}${row.path === this.active ? " active" : ""}`,
        tabindex: "-1",
        title: name.length > 30 ? name : undefined,
        "aria-level": row.level,
        "aria-expanded": isDirectory ? String(this.expanded.has(row.path)) : undefined,
        "aria-current": row.path === this.shown ? "page" : undefined,
        onclick: () => this.#press(row),
        onfocus: () => this.#setActive(row),
        oncontextmenu: (/** @type {Event} */ event) => {
          event.preventDefault();
          this.#setActive(row);
          this.actions.menu(row, element);
        },
      },
      h("span", { class: "tree-arrow", "aria-hidden": "true" }, isDirectory && icon(PATHS.chevron)),
      icon(isDirectory ? PATHS.folder : FILE),
      h(
        "span",
        { class: "tree-name" },
        cut > 0 && h("small", {}, name.slice(0, cut)),
        name.slice(cut),
      ),
      entry.link &&
        h("small", { class: "tree-mark" }, entry.kind === "other" ? "broken link" : "link"),
      !entry.link && entry.kind === "other" && h("small", { class: "tree-mark" }, "special"),
      entry.ignored && h("span", { class: "visually-hidden" }, " (ignored by git)"),
    );
    element.style.setProperty("--level", String(Math.min(row.level - 1, 12)));
    return element;
  }

  /** @param {TreeRow} row */
  #setActive(row) {
    if (this.active !== row.path) {
      this.active = row.path;
      for (const { row: other, element } of this.rows.drawn.values())
        element.classList.toggle("active", other.path === row.path && Boolean(other.entry));
    }
    this.actions.choose(row);
  }

  /** @param {TreeRow} row */
  #press(row) {
    this.#setActive(row);
    if (row.entry?.kind === "directory") this.toggle(row.path);
    else this.actions.open(row.path);
  }

  /** Opens or closes a directory. @param {string} path @param {boolean} [open] */
  toggle(path, open = !this.expanded.has(path)) {
    if (open) this.expanded.add(path);
    else this.expanded.delete(path);
    if (open && !this.directories.has(path)) void this.load(path);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.focused;
    const row = this.rows.rows[at];
    if (!row?.entry) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / (row.height * 16)) - 1);
    const isDirectory = row.entry.kind === "directory";
    const isOpen = this.expanded.has(row.path);
    const move = (/** @type {number} */ to) =>
      this.#focus(Math.max(0, Math.min(this.rows.rows.length - 1, to)), to < at ? -1 : 1);
    const keys = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => move(at + 1),
      ArrowUp: () => (at === 0 ? this.actions.leave() : move(at - 1)),
      PageDown: () => move(at + page),
      PageUp: () => move(at - page),
      Home: () => move(0),
      End: () => move(this.rows.rows.length - 1),
      ArrowRight: () => {
        if (isDirectory && !isOpen) this.toggle(row.path, true);
        else if (isDirectory) move(at + 1);
      },
      ArrowLeft: () => {
        if (isDirectory && isOpen) this.toggle(row.path, false);
        else {
          const parent = parentPath(row.path);
          const index = this.rows.rows.findIndex((it) => it.path === parent && it.entry);
          if (index >= 0) this.rows.focus(index);
        }
      },
      F2: () => this.actions.rename(row),
      Delete: () => this.actions.remove(row),
      ContextMenu: () => this.actions.menu(row, this.#element(at)),
    });
    const act = keys[event.key];
    if (act) act();
    else if (event.key.length === 1 && event.key !== " ") this.#typeAhead(event.key, at);
    else return;
    event.preventDefault();
  }

  /** Focuses a row, or the nearest one that is a file. @param {number} index @param {number} step */
  #focus(index, step) {
    const { rows } = this.rows;
    let to = index;
    while (rows[to] && !rows[to].entry) to += step;
    if (rows[to]) this.rows.focus(to);
  }

  /** @param {number} index */
  #element(index) {
    return this.rows.reveal(index) ?? this.element;
  }

  /** Goes to the next name that begins with what was typed. @param {string} letter @param {number} at */
  #typeAhead(letter, at) {
    const now = performance.now();
    const text = now - this.typed.at < TYPING_PAUSE ? this.typed.text + letter : letter;
    this.typed = { text, at: now };
    const { rows } = this.rows;
    // One letter again and again goes from match to match.
    const start = text.length === 1 ? at + 1 : at;
    for (let n = 0; n < rows.length; n += 1) {
      const index = (start + n) % rows.length;
      if (rows[index].entry?.name.toLowerCase().startsWith(text.toLowerCase())) {
        this.rows.focus(index);
        return;
      }
    }
  }
}

/** @param {string} path @returns {FileEntry} */
function foundEntry(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return { name, kind: "file", link: false, ignored: false, modified: 0, size: 0 };
}
