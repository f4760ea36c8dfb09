/**
 * The files of a session: the tree, and beside it the file that is read. On a phone one of them.
 *
 * @module
 */

import { h, iconButton, PATHS } from "../ui/elements.js";
import { navigate, replaceAddress } from "../ui/layers.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { toast } from "../ui/toast.js";
import { filesAddress, joinPath, mention, parentPath, parseAddress } from "./address.js";
import { FilePane } from "./file-pane.js";
import { FileTree } from "./tree.js";

await Promise.all(["/css/files.css", "/css/fields.css"].map(loadStylesheet));

/** How long typing pauses before files are looked for, in milliseconds. */
const SEARCH_PAUSE = 120;

/** @param {import("../session-page.js").SessionPage} page @param {string} rest */
export function open(page, rest) {
  return new FilesView(page, rest);
}

class FilesView {
  /** @param {import("../session-page.js").SessionPage} page @param {string} rest */
  constructor(page, rest) {
    this.page = page;
    /** What the buttons above the tree are about. @type {import("./tree.js").TreeRow | undefined} */
    this.chosen = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.timer = undefined;
    this.tree = new FileTree(page.id, {
      open: (path) => this.#go(path),
      choose: (row) => this.#choose(row),
      rename: (row) => void this.#rename(row.path),
      remove: (row) => void this.#remove(row.path, row.entry?.kind === "directory"),
      menu: (row, anchor) => void this.#menu(row.path, anchor, row.entry?.kind === "directory"),
      leave: () => this.field.focus(),
    });
    this.pane = new FilePane(page, {
      back: () => this.#back(),
      menu: (path, anchor) => void this.#menu(path, anchor, false),
      directory: (path) => this.#openDirectory(path),
      changed: () => void this.tree.refresh(),
    });
    this.field = h("input", {
      type: "search",
      class: "input",
      placeholder: "Find a file…",
      "aria-label": "Find a file",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.#search(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#fieldKey(event),
    });
    const chooser = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      "aria-label": "Files to upload",
      onchange: () => {
        void this.upload([...(chooser.files ?? [])]);
        chooser.value = "";
      },
    });
    const add = iconButton("New file or directory", PATHS.add, () => void this.#addMenu(add), {
      "aria-haspopup": "menu",
    });
    this.more = iconButton(
      "Actions",
      PATHS.more,
      () => {
        const { chosen } = this;
        if (chosen) void this.#menu(chosen.path, this.more, chosen.entry?.kind === "directory");
      },
      { "aria-haspopup": "menu", disabled: true },
    );
    this.element = h(
      "div",
      { class: "files-view" },
      h(
        "section",
        { class: "files-side", "aria-label": "Directory" },
        h(
          "div",
          { class: "files-tools" },
          this.field,
          add,
          iconButton("Upload files", "M10 13V4M6 7l4-4 4 4M4 16h12", () => chooser.click()),
          this.more,
          chooser,
        ),
        this.tree.element,
      ),
      this.pane.element,
    );
    page.uploadDirectory = () => this.#directory();
    page.uploaded = (paths) => void this.#uploaded(paths);
    this.show(rest);
  }

  /** @param {string} rest */
  show(rest) {
    const { path, line } = parseAddress(rest);
    this.element.classList.toggle("has-file", Boolean(path));
    void this.tree.reveal(path);
    void this.pane.show(path, line);
  }

  focus() {
    if (this.pane.path) this.pane.focus();
    else this.tree.focus();
  }

  close() {
    clearTimeout(this.timer);
    this.pane.close();
    this.page.uploadDirectory = this.page.uploaded = undefined;
  }

  /** Something may have changed: a turn ended, or the page became visible. */
  refresh() {
    void this.tree.refresh();
    void this.pane.refresh();
  }

  /** @param {File[]} files */
  async upload(files) {
    const { uploadFiles } = await import("./upload.js");
    await uploadFiles(this.page, files);
  }

  /** @param {string[]} paths */
  async #uploaded(paths) {
    await this.tree.refresh();
    const directory = parentPath(paths[0] ?? "");
    if (directory) this.tree.toggle(directory, true);
    if (paths.length === 1)
      await this.tree.reveal(paths[0]).then(() => this.tree.reveal(this.pane.path));
  }

  /** @param {string} path */
  #go(path) {
    navigate(filesAddress(this.page.id, path));
  }

  /** To the tree, on a phone. */
  #back() {
    const { path } = this.pane;
    navigate(filesAddress(this.page.id));
    this.tree.active = path;
    requestAnimationFrame(() => this.tree.focus());
  }

  /** An address can name a directory too. @param {string} path */
  #openDirectory(path) {
    replaceAddress(filesAddress(this.page.id));
    this.show("");
    void this.tree.reveal(path).then(() => {
      this.tree.shown = "";
      this.tree.toggle(path, true);
    });
  }

  /** The directory that new files go to. */
  #directory() {
    const { chosen } = this;
    if (chosen?.entry?.kind === "directory") return chosen.path;
    return parentPath(chosen?.path ?? this.pane.path);
  }

  /** @param {import("./tree.js").TreeRow} row */
  #choose(row) {
    this.chosen = row;
    const label = `Actions for ${row.entry?.name ?? "this"}`;
    this.more.disabled = false;
    this.more.title = label;
    this.more.setAttribute("aria-label", label);
  }

  #search() {
    clearTimeout(this.timer);
    const query = this.field.value.trim();
    if (!query) {
      this.tree.showFound(undefined);
      return;
    }
    this.timer = setTimeout(async () => {
      try {
        const paths = await this.page.actions.files(query);
        // Names with a backslash are written as the other calls expect them.
        if (this.field.value.trim() === query)
          this.tree.showFound(paths.map((it) => it.replaceAll("\\", "\\\\")));
      } catch (problem) {
        toast(/** @type {Error} */ (problem).message);
      }
    }, SEARCH_PAUSE);
  }

  /** @param {KeyboardEvent} event */
  #fieldKey(event) {
    if (event.key === "ArrowDown") this.tree.focus();
    else if (event.key === "Enter" && this.tree.found?.[0]) this.#go(this.tree.found[0]);
    else if (event.key === "Escape" && this.field.value) {
      this.field.value = "";
      this.#search();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {HTMLElement} anchor */
  async #addMenu(anchor) {
    const { openMenu } = await import("../dialogs/dialogs.js");
    const where = this.#directory() || "the project's directory";
    openMenu(
      anchor,
      [
        { name: "New file…", about: `In ${where}`, act: () => void this.#create(false) },
        { name: "New directory…", about: `In ${where}`, act: () => void this.#create(true) },
      ],
      "New",
    );
  }

  /** @param {boolean} isDirectory */
  async #create(isDirectory) {
    const { askPath } = await import("./file-dialogs.js");
    const { createDirectory, saveText } = await import("./file-api.js");
    const directory = this.#directory();
    const title = isDirectory ? "New directory" : "New file";
    const path = await askPath(title, joinPath(directory, ""), "Create", (path) =>
      isDirectory ? createDirectory(this.page.id, path) : saveText(this.page.id, path, "", null),
    );
    if (!path) return;
    await this.tree.refresh();
    if (isDirectory) this.tree.toggle(path, true);
    else {
      this.#go(path);
      await this.pane.show(path, 0);
      await this.pane.edit();
    }
  }

  /** @param {string} path @param {HTMLElement} anchor @param {boolean} isDirectory */
  async #menu(path, anchor, isDirectory) {
    const { openMenu } = await import("../dialogs/dialogs.js");
    const { copyText } = await import("./file-dialogs.js");
    openMenu(
      anchor,
      [
        { name: "Mention in the message", act: () => this.#mention(path) },
        { name: "Copy path", act: () => void copyText(path) },
        { name: "Rename or move…", act: () => void this.#rename(path) },
        { name: "Delete…", danger: true, act: () => void this.#remove(path, isDirectory) },
      ],
      `Actions for ${path}`,
    );
  }

  /** @param {string} path */
  #mention(path) {
    navigate(`#/s/${this.page.id}`);
    this.page.composer.quote(mention(path));
  }

  /** @param {string} path */
  async #rename(path) {
    const { askPath } = await import("./file-dialogs.js");
    const { renameFile } = await import("./file-api.js");
    const to = await askPath("Rename or move", path, "Rename", (to) =>
      renameFile(this.page.id, path, to),
    );
    if (!to) return;
    await this.tree.refresh();
    const { path: shown } = this.pane;
    if (shown === path) this.#go(to);
    else if (shown.startsWith(`${path}/`)) this.#go(to + shown.slice(path.length));
  }

  /** @param {string} path @param {boolean} isDirectory */
  async #remove(path, isDirectory) {
    const { confirmAction } = await import("../dialogs/dialogs.js");
    const { deleteFile } = await import("./file-api.js");
    const what = isDirectory ? "the directory and everything in it" : "the file";
    const text = `This deletes ${what} from the disk: ${path}. It cannot be undone here.`;
    if (!(await confirmAction(isDirectory ? "Delete directory?" : "Delete file?", text, "Delete")))
      return;
    try {
      await deleteFile(this.page.id, path);
    } catch (problem) {
      toast(/** @type {Error} */ (problem).message);
    }
    await this.tree.refresh();
    const { path: shown } = this.pane;
    if (shown === path || shown.startsWith(`${path}/`)) navigate(filesAddress(this.page.id));
  }
}
