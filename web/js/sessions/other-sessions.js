/**
 * Sessions that the CLI ran without this server, by project: all of them, and their part of the
 * session list.
 *
 * @module
 */

import { callApi } from "../api.js";
import { fill, h, icon, PATHS } from "../ui/elements.js";
import { baseName, shortAge } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { VirtualList } from "../ui/virtual-list.js";
import { branchName, shortTitle, transcriptFacts } from "./transcript-facts.js";

await loadStylesheet("/css/other-sessions.css");

/** @typedef {import("../gateway.js").Transcript} Transcript */
/** @typedef {{ kind: "project", key: string, height: number, cwd: string, count: number, open: boolean, inTerminal: boolean }} ProjectRow */
/** @typedef {{ kind: "transcript", key: string, height: number, transcript: Transcript, current: boolean }} TranscriptRow */

/** The first page is shown soon, the others take few requests. */
const FIRST_PAGE = 100;
const LATER_PAGES = 500;
/** How often the list is brought up to date while it is in sight, in milliseconds. */
const REFRESH = 30_000;

const coarse = matchMedia("(pointer: coarse)");

export class OtherSessions {
  /** @param {HTMLElement} place @param {HTMLElement} scroller */
  constructor(place, scroller) {
    /** @type {Map<string, Transcript>} */ this.all = new Map();
    this.complete = false;
    this.error = "";
    /** @type {Promise<void> | undefined} */ this.loading = undefined;
    /** @type {Set<string>} */ this.openProjects = new Set();
    this.current = "";
    this.isOpen = false;
    /** Called when there are other sessions than before. */
    this.changed = () => {};
    this.status = h("div", { class: "sidebar-none", role: "status" });
    const list = h("div", { role: "list", "aria-label": "Other sessions" });
    this.element = h("div", { hidden: true }, list, this.status);
    place.append(this.element);
    /** @type {VirtualList<ProjectRow | TranscriptRow>} */
    this.list = new VirtualList(list, scroller, (row) =>
      row.kind === "project" ? this.#drawProject(row) : drawTranscript(row),
    );
    list.addEventListener("keydown", (event) => this.#key(event));
    setInterval(() => this.#refreshIfSeen(), REFRESH);
    document.addEventListener("visibilitychange", () => this.#refreshIfSeen());
  }

  /** Shows or hides the list. @param {boolean} open */
  toggle(open) {
    this.isOpen = open;
    this.element.hidden = !open;
    if (!open) return;
    this.show();
    if (this.complete) void this.refresh();
    else void this.load();
  }

  /** Marks the session that is shown. @param {string} id */
  mark(id) {
    if (id === this.current) return;
    this.current = id;
    this.show();
  }

  /** All of them, the newest first. */
  get newestFirst() {
    return [...this.all.values()].sort((a, b) => b.modified - a.modified);
  }

  /** Loads all pages, one after the other. */
  load() {
    if (this.complete) return Promise.resolve();
    this.loading ??= this.#load().finally(() => {
      this.loading = undefined;
      this.show();
    });
    this.show();
    return this.loading;
  }

  async #load() {
    this.error = "";
    try {
      let last;
      let more = true;
      while (more) {
        const after = last ? `&after=${last.modified}.${last.id}` : "";
        const limit = last ? LATER_PAGES : FIRST_PAGE;
        const page = await readPage(`limit=${limit}${after}`);
        for (const transcript of page.transcripts) this.all.set(transcript.id, transcript);
        last = page.transcripts[page.transcripts.length - 1];
        more = page.more && last !== undefined;
        this.show();
      }
      this.complete = true;
    } catch (problem) {
      this.error = /** @type {Error} */ (problem).message;
    }
  }

  /** Brings the newest ones up to date; older ones do not change. */
  async refresh() {
    if (!this.complete) return this.load();
    const page = await readPage(`limit=${FIRST_PAGE}`).catch(() => undefined);
    if (!page) return;
    const { transcripts, more } = page;
    const oldest = more ? (transcripts[transcripts.length - 1]?.modified ?? 0) : 0;
    for (const { id, modified } of this.all.values()) if (modified >= oldest) this.all.delete(id);
    for (const transcript of transcripts) this.all.set(transcript.id, transcript);
    this.show();
  }

  #refreshIfSeen() {
    const seen = document.visibilityState === "visible" && this.element.checkVisibility();
    if (this.complete && seen) void this.refresh();
    else if (this.error && seen) void this.load();
  }

  show() {
    this.changed();
    if (!this.isOpen) return;
    this.list.show(this.#rows());
    const text = this.loading ? "Loading" : this.error;
    const none = this.complete && !this.all.size;
    fill(
      this.status,
      none ? "The CLI has no sessions of its own in the directories of this server." : text,
      this.error &&
        h(
          "button",
          { type: "button", class: "button", onclick: () => void this.load() },
          "Try again",
        ),
    );
    this.status.hidden = !this.status.firstChild;
  }

  #rows() {
    const projects = groupBy(this.newestFirst, (it) => it.cwd);
    /** @type {(ProjectRow | TranscriptRow)[]} */ const rows = [];
    for (const [cwd, transcripts] of projects) {
      const open = this.openProjects.has(cwd) !== (projects.size === 1);
      const inTerminal = transcripts.some((it) => it.in_terminal);
      const count = transcripts.length;
      const height = coarse.matches ? 2.75 : 2.1;
      rows.push({ kind: "project", key: `project ${cwd}`, height, cwd, count, open, inTerminal });
      if (open) rows.push(...transcripts.map((it) => transcriptRow(it, it.id === this.current)));
    }
    return rows;
  }

  /** @param {ProjectRow} row */
  #drawProject(row) {
    const path = row.cwd.split("/").filter(Boolean);
    return h(
      "div",
      { role: "listitem" },
      h(
        "button",
        {
          type: "button",
          class: "project-row",
          "aria-expanded": String(row.open),
          title: row.cwd,
          onclick: () => this.#toggleProject(row),
        },
        icon(PATHS.chevron),
        h("bdi", { class: "name" }, baseName(row.cwd).slice(0, 200)),
        // The end of a long path says more than its beginning.
        h("span", { class: "above" }, h("bdi", {}, path.slice(0, -1).join("/").slice(-200))),
        row.inTerminal && h("span", { class: "status-dot running", title: "In a terminal" }),
        h("span", { class: "since" }, row.count),
      ),
    );
  }

  /** @param {ProjectRow} row */
  #toggleProject(row) {
    if (!this.openProjects.delete(row.cwd)) this.openProjects.add(row.cwd);
    this.show();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { list } = this;
    const here = list.focused;
    const row = list.rows[here];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (step && list.rows[here + step]) list.focus(here + step);
    else if (row.kind === "project" && event.key === (row.open ? "ArrowLeft" : "ArrowRight"))
      this.#toggleProject(row);
    else if (row.kind === "transcript" && event.key === "ArrowLeft")
      list.focus(list.rows.findLastIndex((it, n) => n < here && it.kind === "project"));
    else return;
    event.preventDefault();
  }
}

/**
 * The members of each group, in the order of their first ones. Browsers of 2023 have no `Map.groupBy`.
 *
 * @template T
 * @param {T[]} all
 * @param {(one: T) => string} key
 */
export function groupBy(all, key) {
  /** @type {Map<string, T[]>} */ const groups = new Map();
  for (const one of all) {
    const members = groups.get(key(one));
    if (members) members.push(one);
    else groups.set(key(one), [one]);
  }
  return groups;
}

/** @param {string} query @returns {Promise<import("../gateway.js").TranscriptsResponse>} */
function readPage(query) {
  return callApi("GET", `/transcripts?outside=true&${query}`);
}

/** @param {Transcript} transcript @param {boolean} current @returns {TranscriptRow} */
export function transcriptRow(transcript, current) {
  const height = coarse.matches ? 3.5 : 3.15;
  return { kind: "transcript", key: transcript.id, height, transcript, current };
}

/** @param {TranscriptRow} row */
function drawTranscript({ transcript, current }) {
  const link = {
    class: "other-row",
    href: `#/t/${transcript.id}`,
    "aria-current": current ? "page" : undefined,
    "data-transcript": transcript.id,
    title: transcript.cwd,
  };
  return h("div", { role: "listitem" }, h("a", link, ...transcriptParts(transcript)));
}

/** What a row says about a session of the CLI. @param {Transcript} transcript */
export function transcriptParts(transcript) {
  const { in_terminal: inTerminal } = transcript;
  return [
    h("span", { class: `status-dot ${inTerminal ? "running" : "idle"}` }),
    h("bdi", { class: "name", dir: "auto" }, shortTitle(transcript.title)),
    h("span", { class: "since" }, shortAge(transcript.modified, Date.now())),
    h(
      "span",
      { class: "place" },
      inTerminal && h("span", { class: "in-terminal" }, "in a terminal"),
      transcript.branch && h("bdi", { class: "branch" }, branchName(transcript)),
      h("span", {}, transcriptFacts(transcript)),
    ),
  ];
}
