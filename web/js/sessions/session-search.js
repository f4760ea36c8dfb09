/**
 * Search in all sessions while the user types: titles and directories here, everything that was said
 * on the server. What it finds replaces the session list until the user leaves it.
 *
 * @module
 */

import { callApi } from "../api.js";
import { markNext } from "../conversation/highlight.js";
import { statusDot } from "../sidebar.js";
import { fill, h } from "../ui/elements.js";
import { baseName, shortAge } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { VirtualList } from "../ui/virtual-list.js";
import { groupBy, transcriptParts } from "./other-sessions.js";
import { shortTitle } from "./transcript-facts.js";

await loadStylesheet("/css/other-sessions.css");

/** @typedef {import("../gateway.js").Session} Session */
/** @typedef {import("../gateway.js").Transcript} Transcript */
/** @typedef {import("../gateway.js").SearchResult} SearchResult */
/** @typedef {import("../gateway.js").SearchResponse} SearchPage */
/**
 * A row of the list. Those with `choose` can be chosen.
 *
 * @typedef {{ key: string, height: number, class: string, parts: () => import("../ui/elements.js").Child[], choose?: () => void }} FoundRow
 */

/** Between the last key and the request, in milliseconds. */
const PAUSE = 160;
/** How soon an index that is being built is asked again, in milliseconds. */
const INDEX_PAUSE = 3000;
const PAGE = 30;
/** With fewer results the search goes on by itself. */
const MIN_RESULTS = 10;
/** How many titles are shown before what was said. */
const FIRST_TITLES = 5;
/** More of a snippet would not be seen. */
const MAX_SNIPPET = 400;
const ROLES = /** @type {Record<string, string>} */ ({ user: "You", tool: "Tool" });

export class SessionSearch {
  /**
   * @param {HTMLInputElement} field
   * @param {HTMLElement} place
   * @param {{ sessions: () => Session[], others: import("./other-sessions.js").OtherSessions, go: (address: string) => void, leave: (byKey: boolean) => void }} app
   */
  constructor(field, place, app) {
    this.field = field;
    this.place = place;
    this.app = app;
    this.query = "";
    /** @type {SearchResult[][]} */ this.pages = [];
    /** @type {string | null | undefined} */ this.more = undefined;
    /** @type {SearchPage["indexing"]} */ this.indexing = undefined;
    this.error = "";
    this.busy = false;
    this.allTitles = false;
    /** Whether the user asked for more than the first results. */
    this.extended = false;
    this.chosen = "";
    /** @type {AbortController | undefined} */ this.request = undefined;
    /** @type {number | undefined} */ this.timer = undefined;
    this.status = h("p", { class: "found-status", role: "status" });
    this.retry = h(
      "button",
      { type: "button", class: "button found-retry", onclick: () => void this.#request() },
      "Try again",
    );
    const list = h("div", { role: "listbox", id: "found", "aria-label": "Results" });
    fill(place, this.status, this.retry, list);
    /** @type {VirtualList<FoundRow>} */
    this.list = new VirtualList(list, place, (row, index) => this.#draw(row, index));
    for (const [name, value] of Object.entries({ role: "combobox", "aria-controls": "found" }))
      field.setAttribute(name, value);
    field.addEventListener("input", () => this.update());
    field.addEventListener("keydown", (event) => this.#key(event));
    app.others.changed = () => this.query && this.#show();
  }

  /** Searches for what is in the field. */
  update() {
    const query = this.field.value.trim();
    if (query === this.query) return;
    this.query = query;
    this.allTitles = this.extended = false;
    this.chosen = "";
    this.place.scrollTop = 0;
    this.#cancel();
    if (!query) {
      this.pages = [];
      this.more = this.indexing = undefined;
      this.#show();
      this.app.leave(false);
      return;
    }
    void this.app.others.load();
    this.error = "";
    this.busy = true;
    this.timer = setTimeout(() => void this.#request(), PAUSE);
    this.#show();
  }

  #cancel() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = undefined;
  }

  /**
   * Asks the server, for the first page or for the one after those that are shown.
   *
   * @param {string} [after]
   * @returns {Promise<void>}
   */
  async #request(after = "") {
    this.#cancel();
    const request = new AbortController();
    this.request = request;
    this.busy = true;
    this.error = "";
    this.#show();
    const query = new URLSearchParams({ q: this.query, limit: String(PAGE) });
    if (after) query.set("after", after);
    try {
      /** @type {SearchPage} */
      const page = await callApi("GET", `/search?${query}`, undefined, request.signal);
      if (request !== this.request) return;
      this.pages = after ? [...this.pages, page.results] : [page.results];
      this.more = page.more;
      this.indexing = page.indexing;
    } catch (problem) {
      if (request !== this.request) return;
      this.error = /** @type {Error} */ (problem).message;
      if (!after) this.pages = [];
    }
    // One search takes a bounded time and may find little in it.
    if (!this.error && this.more && !this.extended && this.pages.flat().length < MIN_RESULTS)
      return this.#request(this.more);
    this.busy = false;
    this.#show();
    // What is being indexed may have more. What the user has gone through stays as it is.
    if (this.indexing && !this.extended && !this.error)
      this.timer = setTimeout(() => void this.#requestIfSeen(), INDEX_PAUSE);
  }

  /** @param {string} more */
  #extend(more) {
    this.extended = true;
    void this.#request(more);
  }

  #requestIfSeen() {
    if (document.visibilityState === "visible" && this.place.checkVisibility())
      return this.#request();
    this.timer = setTimeout(() => void this.#requestIfSeen(), INDEX_PAUSE);
    return undefined;
  }

  #show() {
    const rows = this.query ? [...this.#titleRows(), ...this.#resultRows()] : [];
    const choices = rows.filter((it) => it.choose);
    if (!choices.some((it) => it.key === this.chosen)) this.chosen = choices[0]?.key ?? "";
    this.list.element.hidden = !choices.length;
    this.field.setAttribute("aria-expanded", String(choices.length > 0));
    this.list.show(rows);
    this.#mark();
    const text = this.#statusText(choices.length);
    if (this.status.textContent !== text) this.status.textContent = text;
    this.retry.hidden = !this.error;
  }

  /** @param {number} found */
  #statusText(found) {
    if (!this.query) return "";
    if (this.error) return this.error;
    const { indexing } = this;
    const index =
      indexing && `Still reading conversations: ${indexing.done} of ${indexing.total}. `;
    if (this.busy && !found) return "Searching";
    if (!found) return `${index || ""}Nothing was found.`;
    return index || "";
  }

  /** Sessions whose title or directory has all words. @returns {FoundRow[]} */
  #titleRows() {
    const words = this.query.toLowerCase().replaceAll('"', " ").split(/\s+/).filter(Boolean);
    const matches = (/** @type {{ title?: string | null, cwd: string }} */ it) => {
      const text = `${it.title ?? ""} ${it.cwd}`.toLowerCase();
      return words.length > 0 && words.every((word) => text.includes(word));
    };
    const sessions = this.app.sessions().filter(matches);
    const others = this.app.others.newestFirst.filter(matches);
    const all = [
      ...sessions.map((it) => () => this.#sessionRow(it)),
      ...others.map((it) => () => this.#transcriptRow(it)),
    ];
    if (!all.length) return [];
    const some = this.allTitles ? all : all.slice(0, FIRST_TITLES);
    const rows = [heading("Sessions", "titles"), ...some.map((make) => make())];
    const showAll = () => {
      this.allTitles = true;
      this.#show();
    };
    if (all.length > some.length) rows.push(action(`Show all ${all.length}`, "titles", showAll));
    return rows;
  }

  /** @param {Session} session @returns {FoundRow} */
  #sessionRow(session) {
    const parts = () => [
      h("span", { class: `status-dot ${statusDot(session)}` }),
      h("bdi", { class: "name", dir: "auto" }, shortTitle(session.title || "New session")),
      h("span", { class: "since" }, shortAge(session.active, Date.now())),
      h("span", { class: "place" }, baseName(session.cwd)),
    ];
    return this.#link(`#/s/${session.id}`, `session ${session.id}`, 3.15, "found-row", parts);
  }

  /** @param {Transcript} transcript @returns {FoundRow} */
  #transcriptRow(transcript) {
    const parts = () => transcriptParts(transcript);
    const key = `transcript ${transcript.id}`;
    return this.#link(`#/t/${transcript.id}`, key, 3.15, "found-row", parts);
  }

  /** What was said, session by session. @returns {FoundRow[]} */
  #resultRows() {
    /** @type {FoundRow[]} */ const rows = [];
    let before = "";
    this.pages.forEach((page, n) => {
      // Results of one page are together. Those of a later page come after it, where the user looks.
      const groups = groupBy(page, (it) => it.session ?? it.transcript ?? "");
      for (const [id, results] of groups) {
        if (id !== before) rows.push(sessionHeading(results[0], `${n} ${id}`));
        before = id;
        results.forEach((it, index) => rows.push(this.#resultRow(it, `${n} ${id} ${index}`)));
      }
    });
    if (rows.length) rows.unshift(heading("In conversations", "texts"));
    const { more } = this;
    if (more && !this.busy) rows.push(action("Show more", "texts", () => this.#extend(more)));
    return rows;
  }

  /** @param {SearchResult} result @param {string} key @returns {FoundRow} */
  #resultRow(result, key) {
    const kind = result.session ? "s" : "t";
    const at = /^\d+\.\d+$/.test(result.position ?? "") ? `/at/${result.position}` : "";
    const address = `#/${kind}/${encodeURIComponent(result.session ?? result.transcript ?? "")}${at}`;
    const parts = () => [
      h(
        "div",
        {},
        ROLES[result.role] && h("span", { class: "by" }, `${ROLES[result.role]}:`),
        h("bdi", { dir: "auto" }, ...snippetParts(result.snippet)),
      ),
    ];
    const words = result.snippet.filter((it) => it.match).map((it) => it.text);
    const row = this.#link(address, `text ${key}`, 4.3, "found-text", parts);
    return {
      ...row,
      choose: () => {
        markNext(words);
        this.app.go(address);
      },
    };
  }

  /**
   * @param {string} address
   * @param {string} key
   * @param {number} height
   * @param {string} name
   * @param {FoundRow["parts"]} parts
   * @returns {FoundRow}
   */
  #link(address, key, height, name, parts) {
    return { key, height, class: name, parts, choose: () => this.app.go(address) };
  }

  /** @param {FoundRow} row @param {number} index */
  #draw(row, index) {
    const choose = row.choose && (() => this.#choose(row));
    return h(
      "div",
      {
        class: row.class,
        role: choose ? "option" : "presentation",
        id: choose && `found-${index}`,
        "aria-selected": choose && String(row.key === this.chosen),
        // The focus stays in the field.
        onmousedown: (/** @type {Event} */ event) => event.preventDefault(),
        onclick: choose,
      },
      ...row.parts(),
    );
  }

  /** @param {FoundRow} row */
  #choose(row) {
    this.chosen = row.key;
    this.#mark();
    row.choose?.();
  }

  /** Marks the chosen row. */
  #mark() {
    for (const [key, { element }] of this.list.drawn)
      if (element.matches("[role=option]"))
        element.setAttribute("aria-selected", String(key === this.chosen));
    const index = this.list.rows.findIndex((it) => it.key === this.chosen);
    if (index < 0) this.field.removeAttribute("aria-activedescendant");
    else this.field.setAttribute("aria-activedescendant", `found-${index}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    const choices = this.list.rows.filter((it) => it.choose);
    const here = choices.findIndex((it) => it.key === this.chosen);
    if (step && choices.length) {
      const next = Math.max(0, Math.min(choices.length - 1, here + step));
      this.chosen = choices[next].key;
      this.list.reveal(this.list.rows.indexOf(choices[next]));
      this.#mark();
    } else if (event.key === "Enter" && choices[here]) this.#choose(choices[here]);
    else if (event.key === "Escape") {
      this.field.value = "";
      this.update();
      this.app.leave(true);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** @param {string} text @param {string} key @returns {FoundRow} */
function heading(text, key) {
  return { key: `heading ${key}`, height: 2, class: "found-heading", parts: () => [text] };
}

/** @param {string} text @param {string} key @param {() => void} choose @returns {FoundRow} */
function action(text, key, choose) {
  return { key: `more ${key}`, height: 2.75, class: "found-more", parts: () => [text], choose };
}

/** @param {SearchResult} result @param {string} key @returns {FoundRow} */
function sessionHeading(result, key) {
  const parts = () => [
    h("bdi", { class: "name", dir: "auto" }, shortTitle(result.title)),
    h("span", { class: "since" }, result.at ? shortAge(result.at, Date.now()) : ""),
    h("bdi", { class: "place" }, baseName(result.cwd).slice(0, 200)),
  ];
  return { key: `session of ${key}`, height: 2.9, class: "found-session", parts };
}

/** The texts of a snippet, with the matches marked. @param {SearchResult["snippet"]} snippet */
function snippetParts(snippet) {
  let left = MAX_SNIPPET;
  return snippet.map(({ text, match }) => {
    const part = text.slice(0, Math.max(0, left));
    left -= part.length;
    return match && part ? h("mark", {}, part) : part;
  });
}
