/**
 * Commits, and what one of them changed.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { dateTime, plural, shortAge } from "../ui/format.js";

/** @typedef {import("../gateway.js").GitCommit} GitCommit */
/** @typedef {import("../gateway.js").GitCommitDetails} GitCommitDetails */

export class History {
  /** @param {import("./git-view.js").GitView} view */
  constructor(view) {
    this.view = view;
    /** @type {GitCommit[]} */ this.commits = [];
    this.more = true;
    this.head = "";
    this.loading = false;
    /** @type {GitCommitDetails | undefined} */ this.details = undefined;
    this.element = h("div", { class: "git-log" });
    this.about = h("div", { class: "git-about-commit" });
  }

  /** @param {string} commit @param {string} file */
  show(commit, file) {
    const head = this.view.status?.commit ?? "";
    if (head !== this.head) {
      this.head = head;
      this.commits = [];
      this.more = true;
    }
    if (this.element.parentElement !== this.view.list) fill(this.view.list, this.element);
    this.commit = commit;
    this.#draw();
    if (!this.commits.length && this.more) void this.#load();
    void this.#showCommit(commit, file);
  }

  async #load() {
    if (this.loading) return;
    this.loading = true;
    try {
      const path = `/git/log?skip=${this.commits.length}`;
      const page = await callApi("GET", sessionPath(this.view.page.id, path));
      this.commits.push(...page.commits);
      this.more = page.more;
    } catch (problem) {
      this.more = false;
      this.view.say(/** @type {Error} */ (problem).message);
    } finally {
      this.loading = false;
    }
    this.#draw();
  }

  #draw() {
    const now = Date.now();
    const { scrollTop } = this.element;
    fill(
      this.element,
      h(
        "ul",
        { "aria-label": "Commits" },
        ...this.commits.map((it) =>
          h(
            "li",
            { class: "git-commit" },
            h(
              "a",
              {
                href: this.view.address("log", it.id),
                "aria-current": it.id === this.commit ? "true" : undefined,
              },
              h("span", { class: "git-subject" }, it.subject || "(no message)"),
              h("span", { class: "git-since" }, shortAge(it.at, now)),
              h(
                "span",
                { class: "git-author" },
                ...it.names.map((name) => h("b", { class: "git-ref" }, name)),
                `${it.id.slice(0, 8)} · ${it.author}`,
              ),
            ),
          ),
        ),
      ),
      !this.commits.length &&
        h("p", { class: "git-none" }, this.more ? "…" : "There are no commits yet."),
      this.commits.length > 0 &&
        this.more &&
        h(
          "button",
          { type: "button", class: "git-link git-more", onclick: () => void this.#load() },
          "Show older commits",
        ),
    );
    this.element.scrollTop = scrollTop;
  }

  /** @param {string} commit @param {string} file */
  async #showCommit(commit, file) {
    const { view } = this;
    if (!commit) {
      view.diff.shown = undefined;
      fill(view.detail, h("p", { class: "git-none" }, "Choose a commit to see what it changed."));
      return;
    }
    if (this.details?.commit.id !== commit) {
      fill(view.detail, h("p", { class: "git-none" }, "…"));
      try {
        const path = `/git/commits/${encodeURIComponent(commit)}`;
        this.details = await callApi("GET", sessionPath(view.page.id, path));
      } catch (problem) {
        const { message } = /** @type {Error} */ (problem);
        fill(view.detail, h("p", { class: "git-none" }, message));
        return;
      }
    }
    if (this.commit !== commit || !this.details) return;
    const { commit: about, files, total } = this.details;
    const found = files.find((it) => it.key === file);
    if (file) {
      view.diff.show({ path: file, text: found?.path ?? file, from: found?.from, commit });
      return;
    }
    view.diff.shown = undefined;
    fill(
      view.detail,
      h(
        "div",
        { class: "git-diff" },
        h(
          "div",
          { class: "git-diff-head" },
          iconButton("Back to the list", PATHS.back, () => view.back(), {
            class: "icon-button git-back",
          }),
          h("h2", {}, about.subject || "(no message)"),
        ),
        h(
          "div",
          { class: "git-diff-body", tabindex: "0", role: "region", "aria-label": "Commit" },
          h(
            "p",
            { class: "git-note" },
            `${about.author}, ${dateTime(about.at)} · `,
            h("code", {}, about.id.slice(0, 12)),
          ),
          about.body && h("pre", { class: "git-message" }, about.body),
          h("h3", {}, `${plural(total, "file")} changed`),
          h(
            "ul",
            { class: "git-commit-files" },
            ...files
              .slice(0, 1000)
              .map((it) =>
                h(
                  "li",
                  {},
                  h(
                    "a",
                    { href: view.address("log", commit, it.key) },
                    h("span", { class: `git-state ${it.state}` }, it.state.replace("_", " ")),
                    it.path,
                  ),
                ),
              ),
          ),
          total > Math.min(1000, files.length) &&
            h("p", { class: "git-note" }, "Not all of them are listed."),
        ),
      ),
    );
  }
}
