/**
 * The repository that a session works in: what has changed, the diff of a file, commits and branches.
 *
 * Addresses after `#/s/ID/git`: nothing for the changes, `/unstaged/KEY` and `/staged/KEY` for a diff,
 * `/log` for commits, `/log/COMMIT` for one of them, `/log/COMMIT/KEY` for what it changed in a file.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h, iconButton } from "../ui/elements.js";
import { plural } from "../ui/format.js";
import { navigate } from "../ui/layers.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { toast } from "../ui/toast.js";
import { Changes } from "./changes.js";
import { FileDiffView } from "./file-diff.js";
import { History } from "./history.js";

await loadStylesheet("/css/git.css");

/** @typedef {import("../gateway.js").GitStatus} GitStatus */
/** @typedef {import("../gateway.js").GitFile} GitFile */

/** How often the state is read again while the agent works, in milliseconds. */
const PAUSE = 4000;

const REFRESH = "M15.5 7A6 6 0 1 0 16 11M16 4v3.5h-3.5";

/** @param {import("../session-page.js").SessionPage} page @param {string} rest */
export function open(page, rest) {
  return new GitView(page, rest);
}

export class GitView {
  /** @param {import("../session-page.js").SessionPage} page @param {string} rest */
  constructor(page, rest) {
    this.page = page;
    this.rest = rest;
    /** @type {GitStatus | undefined} */ this.status = undefined;
    this.shown = "";
    this.wasBusy = false;
    this.readAt = 0;
    this.branch = h("button", {
      type: "button",
      class: "button git-branch",
      "aria-haspopup": "dialog",
      onclick: () => void this.#chooseBranch(),
    });
    this.about = h("span", { class: "git-about" });
    this.tabs = h("nav", { class: "git-tabs", "aria-label": "Git" });
    this.words = h("div", { class: "git-words", role: "alert", hidden: true });
    this.list = h("div", { class: "git-list" });
    this.detail = h("div", { class: "git-detail" });
    this.changes = new Changes(this);
    this.history = new History(this);
    this.diff = new FileDiffView(this);
    this.element = h(
      "div",
      { class: "git" },
      h(
        "div",
        { class: "git-head" },
        this.branch,
        this.about,
        this.tabs,
        iconButton("Read again", REFRESH, () => void this.refresh()),
      ),
      this.words,
      h("div", { class: "git-body" }, this.list, this.detail),
    );
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.timer = setInterval(() => this.#tick(), 1000);
    this.focused = () => document.visibilityState === "visible" && void this.refresh();
    document.addEventListener("visibilitychange", this.focused);
    this.#draw();
    void this.refresh();
  }

  /** @param {string} rest */
  show(rest) {
    if (this.rest === rest) return;
    this.rest = rest;
    this.#draw();
  }

  focus() {
    /** @type {HTMLElement | null} */ (
      this.element.querySelector(".git-file a[aria-current], .git-file a, .git-commit a, button")
    )?.focus({ preventScroll: true });
  }

  close() {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.focused);
    this.diff.close();
  }

  /** The address of a part of this view. @param {...string} parts */
  address(...parts) {
    return ["#/s", this.page.id, "git", ...parts.map(encodeURIComponent)].join("/");
  }

  /** Reads the state of the repository. */
  async refresh() {
    this.readAt = Date.now();
    try {
      this.#show(await callApi("GET", sessionPath(this.page.id, "/git/status")));
    } catch (problem) {
      this.#fail(/** @type {import("../api.js").Problem} */ (problem));
    }
  }

  /**
   * Changes something. Returns whether it worked; git's words are shown if not.
   *
   * @param {string} what
   * @param {object} body
   */
  async change(what, body) {
    this.element.setAttribute("aria-busy", "true");
    try {
      const { status, said } = await callApi(
        "POST",
        sessionPath(this.page.id, `/git/${what}`),
        body,
      );
      this.say("");
      this.#show(status);
      if (said && what !== "stage") toast(said.split("\n")[0]);
      return true;
    } catch (problem) {
      const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
      this.say(message);
      if (kind === "changed") void this.refresh();
      return false;
    } finally {
      this.element.removeAttribute("aria-busy");
    }
  }

  /** Shows what git said about something that did not work. @param {string} words */
  say(words) {
    this.words.hidden = !words;
    fill(
      this.words,
      h("pre", { tabindex: "0" }, words),
      h("button", { type: "button", class: "button", onclick: () => this.say("") }, "Close"),
    );
  }

  /** @param {GitStatus} status */
  #show(status) {
    const text = JSON.stringify(status);
    this.status = status;
    if (text !== this.shown) {
      this.shown = text;
      this.#draw();
    }
    void this.diff.refresh();
  }

  /** @param {import("../api.js").Problem} problem */
  #fail(problem) {
    if (this.status) {
      this.say(problem.message);
      return;
    }
    const none = problem.kind === "no-repository";
    fill(
      this.list,
      h(
        "div",
        { class: "git-none" },
        h("h2", {}, none ? "No repository here" : "Git cannot be used here"),
        h("p", {}, problem.message),
      ),
    );
    this.element.classList.add("alone");
    this.branch.hidden = this.tabs.hidden = true;
  }

  #draw() {
    const { status } = this;
    const [first = "", second = "", third = ""] = this.rest.split("/").map(decode);
    const inLog = first === "log";
    const diff = first === "staged" || first === "unstaged" || (inLog && Boolean(third));
    this.element.classList.remove("alone");
    this.element.classList.toggle("detailed", diff || (inLog && Boolean(second)));
    this.branch.hidden = this.tabs.hidden = !status;
    if (!status) {
      fill(this.list, h("p", { class: "git-none" }, "…"));
      return;
    }
    this.branch.textContent =
      status.branch ?? (status.commit ? `${status.commit.slice(0, 8)} (detached)` : "");
    this.branch.title = status.top;
    fill(
      this.about,
      status.ahead > 0 && h("span", { title: "Commits to push" }, `↑${status.ahead}`),
      status.behind > 0 && h("span", { title: "Commits to pull" }, `↓${status.behind}`),
      status.worktree && h("span", { title: status.top }, "working tree of its own"),
    );
    const tab = (/** @type {string} */ name, /** @type {string} */ label) =>
      h(
        "a",
        {
          href: name ? this.address(name) : this.address(),
          "aria-current": (name === "log") === inLog ? "page" : undefined,
        },
        label,
      );
    fill(
      this.tabs,
      tab("", status.total ? `Changes (${status.total})` : "Changes"),
      tab("log", "History"),
    );
    if (inLog) this.history.show(second, third);
    else {
      this.changes.show(status, first, second);
      const file = status.files.find((it) => it.key === second);
      const side = first === "staged" ? "staged" : "unstaged";
      this.diff.show(
        first ? { path: second, text: file?.path ?? second, from: file?.from, side } : undefined,
        file,
      );
    }
  }

  /** While the agent works, and once after it, the state is read again. */
  #tick() {
    const busy = this.page.conversation?.busy ?? false;
    const wanted = busy ? Date.now() - this.readAt > PAUSE : this.wasBusy;
    this.wasBusy = busy;
    if (wanted && document.visibilityState === "visible") void this.refresh();
  }

  async #chooseBranch() {
    const { openBranches } = await import("./branches.js");
    openBranches(this);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input:not([type=checkbox]), textarea")) return;
    const row = target.closest(".git-file, .git-commit");
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (row && step) {
      const rows = [...this.list.querySelectorAll(".git-file, .git-commit")];
      const next = rows[rows.indexOf(row) + step];
      /** @type {HTMLElement | null | undefined} */ (next?.querySelector("a"))?.focus();
    } else if (row && event.key === " " && !target.closest("input"))
      row.querySelector("input")?.click();
    else if (row && (event.key === "Delete" || event.key === "Backspace"))
      void this.changes.discardRow(/** @type {HTMLElement} */ (row));
    else if (event.key === "Escape" && this.element.classList.contains("detailed")) this.back();
    else return;
    event.preventDefault();
  }

  /** From what is shown in detail to the list. */
  back() {
    const [first, second, third] = this.rest.split("/").map(decode);
    if (first === "log" && third) navigate(this.address("log", second));
    else navigate(first === "log" ? this.address("log") : this.address());
  }
}

/** What would be lost, in words. @param {GitFile} file */
export function lossOf(file) {
  const name = file.path;
  if (file.unstaged === "untracked") return `${name} is not in git. It is deleted for good.`;
  if (file.unstaged === "deleted") return `${name} comes back as git has it.`;
  return `What was changed in ${name} and not staged is lost for good.`;
}

/** How many files, in words. @param {number} count */
export const countFiles = (count) => plural(count, "file");

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
