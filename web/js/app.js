/**
 * The whole page: the rail beside, one session or the usage in the middle, keys that work
 * everywhere. The address says what is shown, so that reloading and the back button just work.
 *
 * @module
 */

import { ask, streamAddress } from "./api.js";
import { fill, h, iconButton, PATHS } from "./elements.js";
import { Follower } from "./follower.js";
import { Notices } from "./notices.js";
import { preferences } from "./preferences.js";
import { Rail } from "./rail.js";
import { SessionPage } from "./session.js";
import { toast } from "./toast.js";

/** @typedef {import("./gateway.js").Session} Session */

export class App {
  /** @param {HTMLElement} place @param {import("./gateway.js").Me} me */
  constructor(place, me) {
    this.me = me;
    /** @type {Map<string, Session>} */ this.sessions = new Map();
    this.told = false;
    this.askedWho = 0;
    /** @type {SessionPage | undefined} */ this.page = undefined;
    this.rail = new Rail({ begin: () => this.begin(), switcher: () => void this.switch(), settings: () => void this.settings(), help: () => void this.help() });
    this.scrim = h("div", { class: "scrim", hidden: true, onclick: () => this.drawer(false) });
    this.middle = h("div", {});
    this.notices = new Notices((id) => (location.hash = `#/s/${id}`));
    fill(place, h("a", { class: "skip", href: "#log", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.page?.focus(); } }, "To the message field"), this.rail.element, this.scrim, this.middle);
    this.follower = new Follower(() => streamAddress("/follow"), (frame) => this.#heard(frame), () => this.lineChanged());
    addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => this.#drawRail());
    setInterval(() => this.#drawRail(), 30_000);
    this.lineChanged();
    this.route();
  }

  route() {
    const session = /^#\/s\/([\w-]+)/.exec(location.hash)?.[1];
    this.drawer(false);
    if (session !== this.page?.id || !session) {
      this.page?.close();
      this.page = undefined;
    }
    if (session && !this.page) {
      this.page = new SessionPage(session, { me: this.me, gone: (id) => this.#gone(id), lineChanged: () => this.lineChanged(), openDrawer: () => this.drawer(true), session: (id) => this.sessions.get(id) });
      fill(this.middle, this.page.element);
      if (!matchMedia("(pointer: coarse)").matches) this.page.focus();
    } else if (!session) void this.#otherPage();
    this.rail.usage.toggleAttribute("aria-current", location.hash === "#/usage");
    this.#drawRail();
  }

  async #otherPage() {
    if (location.hash === "#/usage") {
      const { usagePage } = await import("./usage.js");
      fill(this.middle, this.#shell("Usage", usagePage()));
      return;
    }
    if (!this.told) {
      fill(this.middle, this.#shell("", h("div", { class: "empty" }, "…")));
      return;
    }
    const first = this.#ordered()[0];
    if (first) {
      history.replaceState(null, "", `#/s/${first.id}`);
      this.route();
      return;
    }
    fill(this.middle, this.#shell("", h("div", { class: "empty" }, h("img", { src: "/icon.svg", alt: "" }), h("h2", {}, "No sessions yet"),
      h("p", {}, "A session is one conversation with an agent that works in a directory of yours."),
      h("button", { type: "button", class: "button primary", onclick: () => this.begin() }, "New session"))));
  }

  /** @param {string} title @param {Node} body */
  #shell(title, body) {
    return h("main", { class: "page", id: "page" }, h("header", { class: "bar" }, iconButton("Sessions", PATHS.menu, () => this.drawer(true), { class: "icon-button drawer" }), h("h1", {}, title || "Towpath")), body);
  }

  /** @param {import("./gateway.js").Frame} frame */
  #heard(frame) {
    switch (frame.frame) {
      case "sessions":
        this.sessions = new Map(frame.sessions.map((it) => [it.id, it]));
        this.page?.named();
        if (!this.told) {
          this.told = true;
          if (!location.hash || location.hash === "#/") this.route();
        } else void this.#checkVersion();
        if (this.page && !this.sessions.has(this.page.id)) this.#gone(this.page.id);
        this.notices.first([...this.sessions.values()]);
        break;
      case "session": {
        this.notices.changed(this.sessions.get(frame.session.id), frame.session, this.page?.id);
        this.sessions.set(frame.session.id, frame.session);
        if (frame.session.id === this.page?.id) this.page.named();
        break;
      }
      case "session_gone":
        this.sessions.delete(frame.id);
        break;
      default:
        return;
    }
    this.#drawRail();
  }

  /** After a restart of the server it may be a newer one, with a newer page. */
  async #checkVersion() {
    const me = await ask("GET", "/me").catch((problem) => {
      if (problem.status === 401) location.reload();
    });
    if (me && me.version !== this.me.version) {
      this.me.version = me.version;
      toast(`The server is now version ${me.version}. Reload for its page.`);
    }
  }

  #ordered() {
    const rank = { needs_you: 0, running: 1, idle: 2 };
    return [...this.sessions.values()].sort((a, b) => rank[a.tier] - rank[b.tier] || b.active - a.active);
  }

  #drawRail() {
    const sessions = this.#ordered();
    this.rail.show(sessions, this.page?.id ?? "");
    const needs = sessions.filter((it) => it.tier === "needs_you").length;
    this.notices.badge(needs, this.sessions.get(this.page?.id ?? "")?.title ?? undefined);
    if (this.page) {
      const others = sessions.filter((it) => it.tier === "needs_you" && it.id !== this.page?.id).length;
      this.page.badge.hidden = others === 0;
      this.page.badge.textContent = String(others);
    }
  }

  lineChanged() {
    const lines = [this.follower?.line, this.page?.follower?.line].filter((it) => it !== undefined);
    const worst = lines.find((it) => it.is === "lost") ?? lines.find((it) => it.is === "connecting") ?? lines[0];
    if (worst) this.rail.showLine(worst);
    // A socket does not say why it was refused: who is not signed in any more has to go to the door.
    if (worst?.is === "lost" && Date.now() - this.askedWho > 10_000) {
      this.askedWho = Date.now();
      void this.#checkVersion();
    }
  }

  /** @param {boolean} open */
  drawer(open) {
    this.rail.element.classList.toggle("open", open);
    this.scrim.hidden = !open;
    if (open) /** @type {HTMLElement | null} */ (this.rail.element.querySelector("a, button"))?.focus();
  }

  /** @param {string} id */
  #gone(id) {
    this.sessions.delete(id);
    if (this.page?.id === id) {
      toast("There is no such session any more.");
      location.hash = "#/";
    }
  }

  begin() {
    void import("./beginning.js").then(({ beginSession }) => beginSession(this.me, [...this.sessions.values()]));
  }

  async switch() {
    const { openSwitcher } = await import("./switcher.js");
    openSwitcher(this.#ordered(), this.page?.id ?? "");
  }

  async settings() {
    const { openSettings } = await import("./settings.js");
    openSettings(this.me, (id) => this.sessions.get(id)?.title ?? undefined);
  }

  async help() {
    const { openHelp } = await import("./help.js");
    openHelp();
  }

  #nextWaiting() {
    const waiting = this.#ordered().filter((it) => it.tier === "needs_you");
    const here = waiting.findIndex((it) => it.id === this.page?.id);
    const next = waiting[(here + 1) % waiting.length];
    if (!next) toast("Nothing waits for you.");
    else if (next.id === this.page?.id) this.page.asks?.focus();
    else location.hash = `#/s/${next.id}`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) void this.switch();
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open], [popover]:popover-open")) return;
    if (event.key === "Escape" && this.rail.element.classList.contains("open")) {
      this.drawer(false);
      return;
    }
    // Keys that mean something by themselves never fire while somebody writes.
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("input, textarea, select, [contenteditable]")) return;
    if ((event.key === "Enter" || event.key === " ") && target.closest("a, button, summary, [role=button]")) return;
    const keys = /** @type {Record<string, () => void>} */ ({ "?": () => void this.help(), w: () => this.#nextWaiting(), c: () => this.begin(), t: () => (preferences.theme = dark() ? "light" : "dark") });
    if (this.page?.key(event)) event.preventDefault();
    else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  }
}

function dark() {
  return (preferences.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

