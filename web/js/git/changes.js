/**
 * The list of changed files, what is staged of them, and the field for the message of a commit.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";
import { withShortcut } from "../ui/format.js";
import { navigate } from "../ui/layers.js";
import { countFiles, lossOf } from "./git-view.js";

/** @typedef {import("../gateway.js").GitFile} GitFile */
/** @typedef {import("../gateway.js").GitStatus} GitStatus */

/** How many files are shown of each part of the list until someone asks for more. */
const MAX_ROWS = 300;

const LETTERS = /** @type {Record<string, string>} */ ({
  modified: "M",
  added: "A",
  deleted: "D",
  renamed: "R",
  copied: "C",
  type_changed: "T",
  untracked: "?",
  conflicted: "!",
});

/** Messages that users have begun, by session. @type {Map<string, string>} */
const drafts = new Map();

export class Changes {
  /** @param {import("./git-view.js").GitView} view */
  constructor(view) {
    this.view = view;
    this.more = { staged: MAX_ROWS, unstaged: MAX_ROWS };
    this.files = h("div", { class: "git-files" });
    this.message = h("textarea", {
      rows: "3",
      class: "input",
      "aria-label": "Message of the commit",
      placeholder: withShortcut("Message", "Ctrl+Enter commits"),
      maxlength: "20000",
      oninput: () => drafts.set(view.page.id, this.message.value),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        void this.#commit();
      },
    });
    this.commit = h("button", { type: "submit", class: "button primary" }, "Commit");
    this.hint = h("span", { class: "git-hint" });
    this.form = h(
      "form",
      {
        class: "git-commit-form",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          void this.#commit();
        },
      },
      this.message,
      h("div", { class: "git-commit-row" }, this.hint, this.commit),
    );
    this.element = h("div", { class: "git-changes" }, this.files, this.form);
  }

  /** @param {GitStatus} status @param {string} side @param {string} key of the file that is shown */
  show(status, side, key) {
    const focused = this.#focused();
    const staged = status.files.filter((it) => it.staged);
    const unstaged = status.files.filter((it) => it.unstaged);
    const { scrollTop } = this.files;
    fill(
      this.files,
      ...this.#part("staged", "Staged", staged, side === "staged" ? key : ""),
      ...this.#part("unstaged", "Changes", unstaged, side === "unstaged" ? key : ""),
      status.total > status.files.length &&
        h("p", { class: "git-more" }, `${status.total - status.files.length} more are not listed.`),
      !status.total &&
        h(
          "div",
          { class: "git-none" },
          h("p", {}, "Nothing has changed since the last commit."),
          h(
            "button",
            { type: "button", class: "button", onclick: () => this.#showTurns() },
            "What the turns changed",
          ),
        ),
    );
    if (this.element.parentElement !== this.view.list) fill(this.view.list, this.element);
    this.files.scrollTop = scrollTop;
    if (focused) this.#focus(focused);
    this.form.hidden = !status.total;
    this.commit.disabled = !staged.length;
    this.commit.textContent = staged.length ? `Commit ${countFiles(staged.length)}` : "Commit";
    this.hint.textContent = staged.length ? "" : "Stage something first";
    if (document.activeElement !== this.message)
      this.message.value = drafts.get(this.view.page.id) ?? status.message ?? "";
  }

  /** @param {HTMLElement} row */
  async discardRow(row) {
    const { key } = row.dataset;
    const file = this.view.status?.files.find((it) => it.key === key);
    if (file && row.dataset.side === "unstaged") await this.discard(file);
  }

  /** @param {GitFile} file */
  async discard(file) {
    const { confirmAction } = await import("../dialogs/dialogs.js");
    if (!(await confirmAction("Discard changes?", lossOf(file), "Discard"))) return;
    await this.view.change("discard", { paths: [file.key] });
  }

  /**
   * @param {"staged" | "unstaged"} side
   * @param {string} name
   * @param {GitFile[]} files
   * @param {string} current
   */
  #part(side, name, files, current) {
    if (!files.length) return [];
    const staged = side === "staged";
    const shown = files.slice(0, this.more[side]);
    const paths = files.map((it) => it.key);
    return [
      h(
        "div",
        { class: "git-part" },
        h("h2", { id: `git-${side}` }, name, h("span", {}, files.length)),
        h(
          "button",
          {
            type: "button",
            class: "git-link",
            onclick: () => void this.view.change(staged ? "unstage" : "stage", { paths }),
          },
          staged ? "Unstage all" : "Stage all",
        ),
      ),
      h(
        "ul",
        { "aria-labelledby": `git-${side}` },
        ...shown.map((file) => this.#row(file, side, file.key === current)),
      ),
      files.length > shown.length &&
        h(
          "button",
          {
            type: "button",
            class: "git-link git-more",
            onclick: () => {
              this.more[side] = Infinity;
              if (this.view.status) this.show(this.view.status, current && side, current);
            },
          },
          `Show ${files.length - shown.length} more`,
        ),
    ];
  }

  /** @param {GitFile} file @param {"staged" | "unstaged"} side @param {boolean} current */
  #row(file, side, current) {
    const staged = side === "staged";
    const state = (staged ? file.staged : file.unstaged) ?? "modified";
    const cut = file.path.replace(/\/$/, "").lastIndexOf("/") + 1;
    return h(
      "li",
      { class: "git-file", "data-key": file.key, "data-side": side },
      h(
        "label",
        { class: "git-check" },
        h("input", {
          type: "checkbox",
          checked: staged,
          "aria-label": `${staged ? "Unstage" : "Stage"} ${file.path}`,
          onchange: () =>
            void this.view.change(staged ? "unstage" : "stage", {
              paths: staged && file.from ? [file.key, file.from] : [file.key],
            }),
        }),
      ),
      h(
        "a",
        {
          href: this.view.address(side, file.key),
          "aria-current": current ? "true" : undefined,
          title: file.from ? `${file.path} (was ${file.from})` : file.path,
        },
        h("span", { class: "git-name" }, file.path.slice(cut)),
        h("span", { class: "git-directory" }, file.path.slice(0, cut).replace(/\/$/, "")),
        h(
          "span",
          { class: `git-state ${state}`, title: state.replace("_", " ") },
          h("span", { "aria-hidden": "true" }, LETTERS[state]),
          h("span", { class: "visually-hidden" }, state.replace("_", " ")),
        ),
      ),
    );
  }

  async #commit() {
    const message = this.message.value;
    if (this.commit.disabled || !message.trim()) {
      this.message.focus();
      return;
    }
    this.commit.disabled = true;
    this.hint.textContent = "Committing…";
    const done = await this.view.change("commit", { message });
    if (done) {
      drafts.delete(this.view.page.id);
      this.message.value = "";
    } else {
      this.commit.disabled = false;
      this.hint.textContent = "";
    }
  }

  /** The changes of each turn are in the panel beside the conversation. */
  #showTurns() {
    const { page } = this.view;
    navigate(`#/s/${page.id}`);
    if (!page.side?.element.isConnected) void page.toggleSide();
  }

  #focused() {
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    const row = /** @type {HTMLElement | null | undefined} */ (
      this.files.contains(active) ? active?.closest(".git-file") : null
    );
    if (!row) return undefined;
    const at = [...this.files.querySelectorAll(".git-file")].indexOf(row);
    return { key: row.dataset.key, side: row.dataset.side, at };
  }

  /** The same row, or what is in its place now. @param {{ key?: string, side?: string, at: number }} before */
  #focus({ key, side, at }) {
    const rows = /** @type {HTMLElement[]} */ ([...this.files.querySelectorAll(".git-file")]);
    const row =
      rows.find((it) => it.dataset.key === key && it.dataset.side === side) ??
      rows[Math.min(at, rows.length - 1)];
    row?.querySelector("a")?.focus({ preventScroll: true });
  }
}
