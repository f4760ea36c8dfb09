/**
 * The panel beside a conversation, or a dialog on a narrow page: tasks, sub-agents and changed files.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { filesOf, openFile } from "./file-changes.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { preferences } from "../preferences.js";
import { openDialog } from "../dialogs/dialogs.js";
import { PANEL_FITS, PANEL_HAS_SPACE } from "../session-page.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { plural, duration, relativePath } from "../ui/format.js";

await loadStylesheet("/css/side-panel.css");

/** @typedef {{ path: string, edits: number, turns: number[] }} FileRow */

const SIGNS = { pending: "☐", doing: "◐", done: "☑" };
const MARKS = /** @type {Record<string, string>} */ ({
  done: "✔",
  failed: "✘",
  denied: "⊘",
  unanswered: "✘",
});

export class SidePanel {
  /** @param {import("../session-page.js").SessionPage} page */
  constructor(page) {
    this.page = page;
    /** Whether the files of all turns are shown, or those of the last turn that changed any. */
    this.all = false;
    /** Files of turns that are not loaded. @type {import("../gateway.js").SessionFile[] | undefined} */ this.before =
      undefined;
    /** What each part shows, so that unchanged parts are not redrawn. @type {Map<HTMLElement, string>} */ this.shown =
      new Map();
    this.tasks = h("section", { "aria-label": "Tasks", hidden: true });
    this.subAgents = h("section", { "aria-label": "Sub-agents", hidden: true });
    this.files = h("section", { "aria-label": "Changed files" });
    this.body = h("div", { class: "side-body" }, this.tasks, this.subAgents, this.files);
    this.element = h(
      "aside",
      { class: "side", id: "side", "aria-label": "Changes and tasks" },
      h(
        "header",
        { class: "side-head" },
        h("h2", {}, "Changes and tasks"),
        iconButton("Close (p)", PATHS.close, () => this.toggle()),
      ),
      this.body,
    );
    this.update = () =>
      this.#setOpen(PANEL_FITS.matches && (preferences.side ?? PANEL_HAS_SPACE.matches));
    PANEL_FITS.addEventListener("change", this.update);
    this.update();
  }

  close() {
    PANEL_FITS.removeEventListener("change", this.update);
    this.element.remove();
  }

  /** Opens or closes the panel, or opens the dialog on a narrow page. */
  toggle() {
    if (!PANEL_FITS.matches) {
      openDialog({ title: "Changes and tasks", address: "changes", body: [this.body] });
      this.show();
      return;
    }
    const open = !this.element.isConnected;
    preferences.side = open;
    this.#setOpen(open);
    const next = open ? this.element.querySelector("button") : this.page.sideButton;
    next?.focus();
  }

  /** @param {boolean} open */
  #setOpen(open) {
    const { element, sideButton } = this.page;
    element.classList.toggle("beside", open);
    sideButton.setAttribute("aria-expanded", String(open));
    if (!open) {
      this.element.remove();
      return;
    }
    this.element.append(this.body);
    // The user may have left the page while this was loading.
    if (element.isConnected) element.after(this.element);
    this.show();
  }

  /** Scrolls to an item of the conversation and opens it. @param {string} id */
  #goTo(id) {
    document.querySelectorAll("dialog").forEach((it) => it.close());
    const entry = this.page.transcript.entries.get(id)?.element;
    const details = entry?.querySelector("details");
    if (details) details.open = true;
    entry?.scrollIntoView({ block: "center" });
    entry?.querySelector("summary")?.focus({ preventScroll: true });
  }

  /** Shows the current state of the conversation. */
  show() {
    const { conversation } = this.page;
    if (!conversation) return;
    this.#part(this.tasks, conversation.todos, () => this.#tasks(conversation.todos));
    const subAgents = this.#subAgents();
    this.#part(
      this.subAgents,
      subAgents.map((it) => [it.id, it.call?.state, it.call?.target]),
      () =>
        subAgents.length
          ? [h("h3", {}, "Sub-agents"), h("ul", {}, ...subAgents.map((it) => this.#subAgent(it)))]
          : [],
    );
    if (this.all && conversation.more && !this.before) void this.#older();
    const rows = this.#rows();
    const ended = Boolean(conversation.turns.get(rows[0]?.turns[0])?.end);
    this.#part(this.files, [this.all, rows, ended], () => this.#files(rows, ended));
  }

  /**
   * Redraws a part if its content changed, and keeps the focus.
   *
   * @param {HTMLElement} part
   * @param {unknown} about
   * @param {() => import("../ui/elements.js").Child[]} make
   */
  #part(part, about, make) {
    const now = JSON.stringify(about);
    if (this.shown.get(part) === now) return;
    this.shown.set(part, now);
    const focused = part.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.key
      : undefined;
    fill(part, ...make());
    part.hidden = !part.firstChild;
    if (focused)
      /** @type {HTMLElement | null} */ (
        part.querySelector(`[data-key="${CSS.escape(focused)}"]`)
      )?.focus({ preventScroll: true });
  }

  /** @param {import("../gateway.js").Todo[]} todos */
  #tasks(todos) {
    if (!todos.length) return [];
    const done = todos.filter((it) => it.state === "done").length;
    return [
      h("h3", {}, "Tasks", h("span", { class: "soft" }, `${done} of ${todos.length}`)),
      h("progress", {
        max: todos.length,
        value: done,
        "aria-label": `${done} of ${todos.length} done`,
      }),
      h(
        "ul",
        { class: "tasks" },
        ...todos.map((it) =>
          h(
            "li",
            { class: it.state },
            h("span", { "aria-hidden": "true" }, SIGNS[it.state]),
            h("span", {}, it.text, h("span", { class: "visually-hidden" }, ` (${it.state})`)),
          ),
        ),
      ),
    ];
  }

  /** Running sub-agents, and those of the last turn. */
  #subAgents() {
    const items = [...(this.page.conversation?.items.values() ?? [])].filter(
      (it) => it.call?.action === "delegate",
    );
    const last = Math.max(...(this.page.conversation?.turns.keys() ?? []), 0);
    return items.filter((it) => it.turn === last || it.call?.state === "running");
  }

  /** @param {import("./conversation.js").Item} item */
  #subAgent(item) {
    const { call } = item;
    const took = call?.started && call.ended ? duration(call.ended - call.started) : "";
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "side-row",
          "data-key": item.id,
          onclick: () => this.#goTo(item.id),
        },
        h("span", { class: `mark ${call?.state ?? ""}` }, MARKS[call?.state ?? ""] ?? "◐"),
        h("span", { class: "name" }, call?.target || "Sub-agent"),
        h("span", { class: "soft" }, took),
      ),
    );
  }

  /** @returns {FileRow[]} */
  #rows() {
    const { conversation } = this.page;
    const turns = [...(conversation?.turns.values() ?? [])]
      .filter((it) => it.files?.length)
      .sort((a, b) => b.number - a.number);
    if (!this.all)
      return (turns[0]?.files ?? []).map((it) => ({ ...it, turns: [turns[0].number] }));
    /** @type {Map<string, FileRow>} */ const rows = new Map();
    const add = (
      /** @type {string} */ path,
      /** @type {number} */ edits,
      /** @type {number} */ turn,
    ) => {
      const row = rows.get(path) ?? { path, edits: 0, turns: [] };
      rows.set(path, row);
      if (row.turns.includes(turn)) return;
      row.edits += edits;
      row.turns.push(turn);
    };
    for (const turn of turns)
      for (const file of turn.files ?? []) add(file.path, file.edits, turn.number);
    for (const file of this.before ?? [])
      for (const turn of file.turns) if (!conversation?.turns.has(turn)) add(file.path, 1, turn);
    return [...rows.values()];
  }

  async #older() {
    this.before = [];
    const response = await callApi("GET", sessionPath(this.page.id, "/changed")).catch(() => ({
      files: [],
    }));
    this.before = response.files;
    this.show();
  }

  /** @param {FileRow[]} rows @param {boolean} ended */
  #files(rows, ended) {
    const choose = (/** @type {boolean} */ all, /** @type {string} */ words) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(this.all === all),
          "data-key": words,
          onclick: () => {
            this.all = all;
            this.show();
          },
        },
        words,
      );
    const turn = rows[0]?.turns[0];
    const list = h("ul", {}, ...rows.map((it) => this.#file(it)));
    if (!this.all && ended) void this.#showLineCounts(turn, list);
    return [
      h("h3", {}, "Changed files", rows.length > 0 && h("span", { class: "soft" }, rows.length)),
      h(
        "div",
        { class: "choose", role: "group", "aria-label": "Turns" },
        choose(false, turn !== undefined && !this.all ? `Turn ${turn}` : "Last turn"),
        choose(true, "All turns"),
      ),
      rows.length ? list : h("p", { class: "soft" }, "No changed files yet."),
    ];
  }

  /** @param {FileRow} row */
  #file(row) {
    const name = relativePath(row.path, this.page.conversation?.head.cwd);
    const cut = name.lastIndexOf("/") + 1;
    const often =
      this.all && row.turns.length > 1
        ? plural(row.turns.length, "turn")
        : row.edits > 1
          ? `× ${row.edits}`
          : "";
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "side-row",
          "data-key": row.path,
          title: row.path,
          onclick: () => void openFile(this.page, row.path, row.turns),
        },
        h(
          "span",
          { class: "name" },
          cut > 0 && h("span", { class: "soft" }, name.slice(0, cut)),
          h("b", {}, name.slice(cut)),
        ),
        h("span", { class: "soft often" }, often),
      ),
    );
  }

  /** Adds the numbers of added and removed lines of a finished turn. @param {number} turn @param {HTMLElement} list */
  async #showLineCounts(turn, list) {
    const files = await filesOf(this.page.id, turn, true).catch(() => []);
    for (const file of files) {
      const place = list.querySelector(`[data-key="${CSS.escape(file.path)}"] .often`);
      if (place)
        fill(
          place,
          h(
            "span",
            { class: "delta" },
            h("ins", {}, `+${file.added}`),
            h("del", {}, `−${file.removed}`),
          ),
        );
    }
  }
}
