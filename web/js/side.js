/**
 * What stands beside a conversation, or comes over it where there is no room: what is to be done,
 * who helps, and which files were changed.
 *
 * @module
 */

import { ask, at } from "./api.js";
import { filesOf, openFile } from "./changes.js";
import { fill, h, iconButton, PATHS } from "./elements.js";
import { preferences } from "./preferences.js";
import { openSheet } from "./sheets.js";
import { AMPLE, ROOM } from "./session.js";
import { styled } from "./styles.js";
import { several, span, within } from "./words.js";

await styled("/css/side.css");

/** @typedef {{ path: string, times: number, turns: number[], added?: number, removed?: number }} Row */

const SIGNS = { pending: "☐", doing: "◐", done: "☑" };
const MARKS = /** @type {Record<string, string>} */ ({ done: "✔", failed: "✘", denied: "✘", unanswered: "✘" });

export class Side {
  /** @param {import("./session.js").SessionPage} page */
  constructor(page) {
    this.page = page;
    /** Whether the files of all turns are shown, or those of the last one that changed any. */
    this.all = false;
    /** Files of turns that are not loaded. @type {import("./gateway.js").TouchedFile[] | undefined} */ this.before = undefined;
    /** What each part showed last, so that what did not change is left alone. @type {Map<HTMLElement, string>} */ this.shown = new Map();
    this.tasks = h("section", { "aria-label": "Tasks", hidden: true });
    this.helpers = h("section", { "aria-label": "Helpers", hidden: true });
    this.files = h("section", { "aria-label": "Changed files" });
    this.body = h("div", { class: "side-body" }, this.tasks, this.helpers, this.files);
    this.element = h("aside", { class: "side", id: "side", "aria-label": "Changes and tasks" },
      h("header", { class: "side-head" }, h("h2", {}, "Changes and tasks"), iconButton("Close (p)", PATHS.close, () => this.toggle())), this.body);
    this.fit = () => this.#stand(ROOM.matches && (preferences.side ?? AMPLE.matches));
    ROOM.addEventListener("change", this.fit);
    this.fit();
  }

  close() {
    ROOM.removeEventListener("change", this.fit);
    this.element.remove();
  }

  /** Shows or hides it: beside the conversation, or over it where there is no room. */
  toggle() {
    if (!ROOM.matches) {
      openSheet({ title: "Changes and tasks", body: [this.body] });
      this.show();
      return;
    }
    const open = !this.element.isConnected;
    preferences.side = open;
    this.#stand(open);
    const next = open ? this.element.querySelector("button") : this.page.sideButton;
    next?.focus();
  }

  /** @param {boolean} open */
  #stand(open) {
    const { element, sideButton } = this.page;
    element.classList.toggle("beside", open);
    sideButton.setAttribute("aria-expanded", String(open));
    if (!open) {
      this.element.remove();
      return;
    }
    this.element.append(this.body);
    // A page that was left while this was fetched has no place beside it any more.
    if (element.isConnected) element.after(this.element);
    this.show();
  }

  /** Goes to an item of the conversation, and opens it. @param {string} id */
  #goTo(id) {
    document.querySelectorAll("dialog").forEach((it) => it.close());
    const entry = this.page.transcript.entries.get(id)?.element;
    const details = entry?.querySelector("details");
    if (details) details.open = true;
    entry?.scrollIntoView({ block: "center" });
    entry?.querySelector("summary")?.focus({ preventScroll: true });
  }

  /** Shows what the conversation says now. */
  show() {
    const { conversation } = this.page;
    if (!conversation) return;
    this.#part(this.tasks, conversation.todos, () => this.#tasks(conversation.todos));
    const helpers = this.#helpers();
    this.#part(this.helpers, helpers.map((it) => [it.id, it.call?.state, it.call?.target]), () => helpers.length ? [h("h3", {}, "Helpers"), h("ul", {}, ...helpers.map((it) => this.#helper(it)))] : []);
    if (this.all && conversation.more && !this.before) void this.#older();
    const rows = this.#rows();
    const ended = Boolean(conversation.turns.get(rows[0]?.turns[0])?.end);
    this.#part(this.files, [this.all, rows, ended], () => this.#files(rows, ended));
  }

  /**
   * Makes a part anew if what it shows is another, and leaves the focus where it was.
   *
   * @param {HTMLElement} part
   * @param {unknown} about
   * @param {() => import("./elements.js").Child[]} make
   */
  #part(part, about, make) {
    const now = JSON.stringify(about);
    if (this.shown.get(part) === now) return;
    this.shown.set(part, now);
    const focused = part.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : undefined;
    fill(part, ...make());
    part.hidden = !part.firstChild;
    if (focused) /** @type {HTMLElement | null} */ (part.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
  }

  /** @param {import("./gateway.js").Todo[]} todos */
  #tasks(todos) {
    if (!todos.length) return [];
    const done = todos.filter((it) => it.state === "done").length;
    return [h("h3", {}, "Tasks", h("span", { class: "soft" }, `${done} of ${todos.length}`)),
      h("progress", { max: todos.length, value: done, "aria-label": `${done} of ${todos.length} done` }),
      h("ul", { class: "tasks" }, ...todos.map((it) => h("li", { class: it.state }, h("span", { "aria-hidden": "true" }, SIGNS[it.state]), h("span", {}, it.text, h("span", { class: "unseen" }, ` (${it.state})`)))))];
  }

  /** Sub-agents that work, and those of the last turn. */
  #helpers() {
    const items = [...(this.page.conversation?.items.values() ?? [])].filter((it) => it.call?.verb === "delegate");
    const last = Math.max(...(this.page.conversation?.turns.keys() ?? []), 0);
    return items.filter((it) => it.turn === last || it.call?.state === "running");
  }

  /** @param {import("./gateway.js").Item} item */
  #helper(item) {
    const { call } = item;
    const took = call?.began && call.ended ? span(call.ended - call.began) : "";
    return h("li", {}, h("button", { type: "button", class: "side-row", "data-key": item.id, onclick: () => this.#goTo(item.id) },
      h("span", { class: `mark ${call?.state ?? ""}` }, MARKS[call?.state ?? ""] ?? "◐"), h("span", { class: "name" }, call?.target || "A helper"), h("span", { class: "soft" }, took)));
  }

  /** @returns {Row[]} */
  #rows() {
    const { conversation } = this.page;
    const turns = [...(conversation?.turns.values() ?? [])].filter((it) => it.files?.length).sort((a, b) => b.number - a.number);
    if (!this.all) return (turns[0]?.files ?? []).map((it) => ({ ...it, turns: [turns[0].number] }));
    /** @type {Map<string, Row>} */ const rows = new Map();
    const add = (/** @type {string} */ path, /** @type {number} */ times, /** @type {number} */ turn) => {
      const row = rows.get(path) ?? { path, times: 0, turns: [] };
      rows.set(path, row);
      if (row.turns.includes(turn)) return;
      row.times += times;
      row.turns.push(turn);
    };
    for (const turn of turns) for (const file of turn.files ?? []) add(file.path, file.times, turn.number);
    for (const file of this.before ?? []) for (const turn of file.turns) if (!conversation?.turns.has(turn)) add(file.path, 1, turn);
    return [...rows.values()];
  }

  async #older() {
    this.before = [];
    const told = await ask("GET", at(this.page.id, "/changed")).catch(() => ({ files: [] }));
    this.before = told.files;
    this.show();
  }

  /** @param {Row[]} rows @param {boolean} ended */
  #files(rows, ended) {
    const choose = (/** @type {boolean} */ all, /** @type {string} */ words) => h("button", { type: "button", "aria-pressed": String(this.all === all), "data-key": words, onclick: () => {
      this.all = all;
      this.show();
    } }, words);
    const turn = rows[0]?.turns[0];
    const list = h("ul", {}, ...rows.map((it) => this.#file(it)));
    if (!this.all && ended) void this.#count(turn, list);
    return [
      h("h3", {}, "Changed files", rows.length > 0 && h("span", { class: "soft" }, rows.length)),
      h("div", { class: "choose", role: "group", "aria-label": "Of which turns" }, choose(false, turn !== undefined && !this.all ? `Turn ${turn}` : "Last turn"), choose(true, "All turns")),
      rows.length ? list : h("p", { class: "soft" }, this.all ? "No file was changed yet." : "No turn has changed a file yet."),
    ];
  }

  /** @param {Row} row */
  #file(row) {
    const name = within(row.path, this.page.conversation?.head.cwd);
    const cut = name.lastIndexOf("/") + 1;
    const often = this.all && row.turns.length > 1 ? several(row.turns.length, "turn") : row.times > 1 ? `× ${row.times}` : "";
    return h("li", {}, h("button", { type: "button", class: "side-row", "data-key": row.path, title: row.path, onclick: () => void openFile(this.page, row.path, row.turns) },
      h("span", { class: "name" }, cut > 0 && h("span", { class: "soft" }, name.slice(0, cut)), h("b", {}, name.slice(cut))), h("span", { class: "soft often" }, often)));
  }

  /** Adds how many lines came and went in a turn that is over. @param {number} turn @param {HTMLElement} list */
  async #count(turn, list) {
    const files = await filesOf(this.page.id, turn, true).catch(() => []);
    for (const file of files) {
      const place = list.querySelector(`[data-key="${CSS.escape(file.path)}"] .often`);
      if (place) fill(place, h("span", { class: "delta" }, h("ins", {}, `+${file.added}`), h("del", {}, `−${file.removed}`)));
    }
  }
}
