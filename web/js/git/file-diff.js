/**
 * The diff of one file, with buttons for the file and for each hunk.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { plural } from "../ui/format.js";
import { htmlNodes } from "../ui/trusted-html.js";

/** @typedef {import("../gateway.js").GitDiff} GitDiff */
/** @typedef {import("../gateway.js").GitHunk} GitHunk */
/** @typedef {import("../gateway.js").GitFile} GitFile */

/**
 * What is shown: a file of the working tree, or of a commit.
 *
 * @typedef {{ path: string, text: string, from?: string | null, side?: "staged" | "unstaged", commit?: string }} Shown
 */

export class FileDiffView {
  /** @param {import("./git-view.js").GitView} view */
  constructor(view) {
    this.view = view;
    /** @type {Shown | undefined} */ this.shown = undefined;
    /** @type {GitFile | undefined} */ this.file = undefined;
    this.text = "";
    this.request = new AbortController();
    this.head = h("div", { class: "git-diff-head" });
    this.body = h("div", { class: "git-diff-body item", tabindex: "0", role: "region" });
    this.element = h("div", { class: "git-diff" }, this.head, this.body);
  }

  close() {
    this.request.abort();
  }

  /** @param {Shown | undefined} shown @param {GitFile} [file] */
  show(shown, file) {
    const changed = JSON.stringify(shown) !== JSON.stringify(this.shown);
    this.shown = shown;
    this.file = file;
    if (!shown) {
      fill(
        this.view.detail,
        h("p", { class: "git-none" }, "Choose a file to see what has changed in it."),
      );
      return;
    }
    if (this.element.parentElement !== this.view.detail) fill(this.view.detail, this.element);
    this.body.setAttribute("aria-label", `Changes of ${shown.text}`);
    this.#drawHead();
    if (!changed) return;
    this.text = "";
    fill(this.body, h("p", { class: "git-none" }, "…"));
    this.body.scrollTop = 0;
    void this.refresh();
  }

  async refresh() {
    const { shown } = this;
    if (!shown) return;
    this.request.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    const query = new URLSearchParams({ path: shown.path });
    if (shown.from) query.set("from", shown.from);
    if (shown.commit) query.set("commit", shown.commit);
    else query.set("side", shown.side ?? "unstaged");
    try {
      const path = sessionPath(this.view.page.id, `/git/diff?${query}`);
      const diff = await callApi("GET", path, undefined, signal);
      const text = JSON.stringify(diff);
      if (signal.aborted || text === this.text) return;
      this.text = text;
      this.#draw(diff);
    } catch (problem) {
      if (signal.aborted) return;
      fill(this.body, h("p", { class: "git-none" }, /** @type {Error} */ (problem).message));
    }
  }

  #drawHead() {
    const { shown, file, view } = this;
    if (!shown) return;
    const button = (/** @type {string} */ label, /** @type {() => void} */ press, danger = false) =>
      h(
        "button",
        { type: "button", class: danger ? "button danger-text" : "button", onclick: press },
        label,
      );
    const paths = file?.from && shown.side === "staged" ? [file.key, file.from] : [shown.path];
    this.delta = h("span", { class: "delta" });
    fill(
      this.head,
      iconButton("Back to the list", PATHS.back, () => view.back(), {
        class: "icon-button git-back",
      }),
      h(
        "h2",
        {},
        shown.text,
        shown.from && shown.side !== "unstaged" && h("small", {}, ` was ${shown.from}`),
      ),
      this.delta,
      file &&
        shown.side === "unstaged" &&
        button("Stage", () => void view.change("stage", { paths })),
      file &&
        shown.side === "unstaged" &&
        file.unstaged !== "conflicted" &&
        button("Discard", () => void view.changes.discard(file), true),
      file &&
        shown.side === "staged" &&
        button("Unstage", () => void view.change("unstage", { paths })),
    );
  }

  /** @param {GitDiff} diff */
  #draw(diff) {
    const { scrollTop } = this.body;
    if (this.delta)
      fill(
        this.delta,
        diff.lines_added > 0 && h("ins", {}, `+${diff.lines_added}`),
        diff.lines_removed > 0 && h("del", {}, `−${diff.lines_removed}`),
      );
    const note = (/** @type {string} */ text) => h("p", { class: "git-note" }, text);
    const same = !diff.hunks.length && !diff.binary && !diff.old_mode && !diff.added;
    fill(
      this.body,
      diff.binary && note("A binary file."),
      diff.added && note(diff.hunks.length || diff.binary ? "A new file." : "A new, empty file."),
      diff.deleted && note("The file is gone."),
      diff.old_mode && note(`Its mode has changed from ${diff.old_mode} to ${diff.new_mode}.`),
      same && !diff.deleted && note("Nothing has changed here."),
      ...diff.hunks.map((hunk, number) => this.#hunk(hunk, number)),
      diff.hidden_hunks > 0 &&
        note(`${plural(diff.hidden_hunks, "more part")} of this diff are not shown.`),
      diff.cut && note("The diff is too long to be read to its end."),
    );
    this.body.scrollTop = scrollTop;
  }

  /** @param {GitHunk} hunk @param {number} number */
  #hunk(hunk, number) {
    const { shown } = this;
    const place = `Line ${hunk.new_start || hunk.old_start}`;
    const act = (/** @type {string} */ what) => {
      const part = { path: shown?.path, from: shown?.from ?? undefined, id: hunk.id };
      void this.view.change(what, { hunk: part });
    };
    const button = (
      /** @type {string} */ label,
      /** @type {() => void} */ press,
      /** @type {string} */ name = "git-link",
    ) =>
      h(
        "button",
        {
          type: "button",
          class: name,
          "aria-label": `${label} the part at ${place.toLowerCase()}`,
          onclick: press,
        },
        label,
      );
    return h(
      "section",
      { class: "git-hunk", "aria-label": `Part ${number + 1}` },
      h(
        "div",
        { class: "git-hunk-head" },
        h("span", { class: "git-place" }, place),
        h("code", {}, hunk.heading),
        hunk.id && shown?.side === "unstaged" && button("Stage", () => act("stage")),
        hunk.id &&
          shown?.side === "unstaged" &&
          button("Discard", () => void this.#discard(hunk, act), "git-link danger-text"),
        hunk.id && shown?.side === "staged" && button("Unstage", () => act("unstage")),
      ),
      h("div", { class: "git-hunk-lines", tabindex: "0", role: "group" }, htmlNodes(hunk.html)),
    );
  }

  /** @param {GitHunk} hunk @param {(what: string) => void} act */
  async #discard(hunk, act) {
    const { confirmAction } = await import("../dialogs/dialogs.js");
    const lost = [
      hunk.added > 0 && plural(hunk.added, "added line"),
      hunk.removed > 0 && plural(hunk.removed, "removed line"),
    ].filter(Boolean);
    const text = `${this.shown?.text}: ${lost.join(" and ")} are undone for good.`;
    if (await confirmAction("Discard this part?", text, "Discard")) act("discard");
  }
}
