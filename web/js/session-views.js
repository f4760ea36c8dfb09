/**
 * What a session page can show instead of the conversation: files, git, a terminal. Each has an
 * address, `#/s/ID/NAME/REST`, and a module that is loaded when it is first shown.
 *
 * @module
 */

import { fill, h } from "./ui/elements.js";

/** @typedef {import("./session-page.js").SessionPage} SessionPage */

/**
 * An open view. It is closed when another one is shown and when the page is left. `refresh` is called
 * when something may have changed: a turn ended, or the page became visible.
 *
 * @typedef {{ element: HTMLElement, show: (rest: string) => void, focus: () => void, close: () => void, refresh?: () => void }} SessionView
 */

/**
 * A module of a view exports `open`. `rest` is what follows the view's name in the address.
 *
 * @typedef {{ open: (page: SessionPage, rest: string) => SessionView }} ViewModule
 */

/** @type {{ name: string, label: string, load: () => Promise<ViewModule>, allowed?: (page: SessionPage) => boolean }[]} */
const VIEWS = [
  {
    name: "files",
    label: "Files",
    load: () => import("./files/files-view.js"),
    allowed: (page) => page.canDrive,
  },
  {
    name: "git",
    label: "Git",
    load: () => import("./git/git-view.js"),
    allowed: (page) => page.canDrive,
  },
  {
    name: "terminal",
    label: "Terminal",
    load: () => import("./terminal/terminal-view.js"),
    allowed: (page) => page.app.me.shell,
  },
];

export class SessionViews {
  /** @param {SessionPage} page */
  constructor(page) {
    this.page = page;
    /** Where the reader was in the conversation. */
    this.scrolled = 0;
    /** @type {SessionView | undefined} */ this.view = undefined;
    this.name = "";
    /** Whether a request waits for the user, in the conversation. */
    this.waiting = false;
    this.place = h("div", { class: "session-view", hidden: true });
    this.element = h("nav", { class: "views", "aria-label": "Views of this session" });
    this.visible = () => {
      if (document.visibilityState === "visible") this.refresh();
    };
    document.addEventListener("visibilitychange", this.visible);
    this.#draw();
  }

  /** Shows a view, or the conversation. @param {string} name empty for the conversation @param {string} rest */
  async show(name, rest) {
    const found = this.#allowed().find((it) => it.name === name);
    const changed = this.name !== (found?.name ?? "");
    this.name = found?.name ?? "";
    this.#draw();
    if (!changed) {
      this.view?.show(rest);
      return;
    }
    this.view?.close();
    this.view = undefined;
    fill(this.place);
    this.place.hidden = !found;
    const { classList } = this.page.element;
    if (found && !classList.contains("viewing")) this.scrolled = scrollY;
    classList.toggle("viewing", Boolean(found));
    if (!found) {
      scrollTo(0, this.scrolled);
      return;
    }
    const { open } = await found.load();
    // The user may have gone elsewhere while it was loading.
    if (this.name !== name || this.view) return;
    this.view = open(this.page, rest);
    fill(this.place, this.view.element);
  }

  /** Marks the conversation while it is not shown. @param {boolean} waiting */
  showWaiting(waiting) {
    if (this.waiting === waiting) return;
    this.waiting = waiting;
    this.#draw();
  }

  /** The address of the view whose name starts with a letter, `c` for the conversation. @param {string} letter */
  addressOf(letter) {
    const found = this.#allowed().find((it) => it.name.startsWith(letter));
    if (letter !== "c" && !found) return undefined;
    return `#/s/${this.page.id}${letter === "c" ? "" : `/${found?.name}`}`;
  }

  close() {
    document.removeEventListener("visibilitychange", this.visible);
    this.view?.close();
  }

  /** Something that a view shows may have changed. */
  refresh() {
    this.view?.refresh?.();
  }

  #allowed() {
    return VIEWS.filter((it) => it.allowed?.(this.page) ?? true);
  }

  #draw() {
    const link = (/** @type {string} */ name, /** @type {string} */ label) =>
      h(
        "a",
        {
          href: `#/s/${this.page.id}${name && `/${name}`}`,
          "aria-current": this.name === name ? "page" : undefined,
        },
        label,
        !name &&
          this.waiting &&
          this.name !== "" &&
          h(
            "span",
            { class: "status-dot needs" },
            h("span", { class: "visually-hidden" }, " (needs you)"),
          ),
      );
    const views = this.#allowed();
    this.element.hidden = views.length === 0;
    fill(this.element, link("", "Chat"), ...views.map((it) => link(it.name, it.label)));
  }
}
