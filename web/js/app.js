/**
 * The whole page: the sidebar, one session or the usage in the middle, and global keys. The
 * address says what is shown, so reloading and the back button work.
 *
 * @module
 */

import { callApi, streamAddress } from "./api.js";
import { fill, h, iconButton, PATHS } from "./ui/elements.js";
import { Connection } from "./connection.js";
import { Notifications } from "./notifications.js";
import { preferences } from "./preferences.js";
import { Sidebar } from "./sidebar.js";
import { SessionPage } from "./session-page.js";
import { toast } from "./ui/toast.js";

/** @typedef {import("./gateway.js").Session} Session */

export class App {
  /** @param {HTMLElement} place @param {import("./gateway.js").Me} me */
  constructor(place, me) {
    this.me = me;
    /** @type {Map<string, Session>} */ this.sessions = new Map();
    this.loaded = false;
    this.checkedAt = 0;
    /** @type {SessionPage | undefined} */ this.page = undefined;
    this.sidebar = new Sidebar({
      newSession: () => this.newSession(),
      switcher: () => void this.switch(),
      settings: () => void this.settings(),
      help: () => void this.help(),
    });
    this.scrim = h("div", { class: "scrim", hidden: true, onclick: () => this.drawer(false) });
    this.middle = h("div", {});
    this.notifications = new Notifications((id) => (location.hash = `#/s/${id}`));
    fill(
      place,
      h(
        "a",
        {
          class: "skip",
          href: "#log",
          onclick: (/** @type {Event} */ event) => {
            event.preventDefault();
            this.page?.focus();
          },
        },
        "Skip to the message field",
      ),
      this.sidebar.element,
      this.scrim,
      this.middle,
    );
    /** @type {Connection<import("./gateway.js").SessionListFrame>} */
    this.connection = new Connection(
      () => streamAddress("/follow"),
      (frame) => this.#received(frame),
      () => this.connectionChanged(),
    );
    addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => this.#drawSidebar());
    setInterval(() => this.#drawSidebar(), 30_000);
    this.connectionChanged();
    this.route();
  }

  route() {
    const session = /^#\/s\/([\w-]+)/.exec(location.hash)?.[1];
    this.drawer(false);
    if (session !== this.page?.id || !session) {
      // A dialog of another session, which the back button left, would act on that one.
      if (this.page) document.querySelectorAll("dialog[open]").forEach((it) => closeDialog(it));
      this.page?.close();
      this.page = undefined;
    }
    if (session && !this.page) {
      this.page = new SessionPage(session, {
        me: this.me,
        deleted: (id) => this.#deleted(id),
        connectionChanged: () => this.connectionChanged(),
        openDrawer: () => this.drawer(true),
        session: (id) => this.sessions.get(id),
      });
      fill(this.middle, this.page.element);
      if (!matchMedia("(pointer: coarse)").matches) this.page.focus();
    } else if (!session) void this.#otherPage();
    this.sidebar.usage.toggleAttribute("aria-current", location.hash === "#/usage");
    this.#drawSidebar();
  }

  async #otherPage() {
    if (location.hash === "#/usage") {
      const { usagePage } = await import("./dialogs/usage.js");
      fill(this.middle, this.#shell("Usage", usagePage()));
      return;
    }
    if (!this.loaded) {
      fill(this.middle, this.#shell("", h("div", { class: "empty" }, "…")));
      return;
    }
    const first = this.#ordered()[0];
    if (first) {
      history.replaceState(null, "", `#/s/${first.id}`);
      this.route();
      return;
    }
    fill(
      this.middle,
      this.#shell(
        "",
        h(
          "div",
          { class: "empty" },
          h("img", { src: "/icon.svg", alt: "" }),
          h("h2", {}, "No sessions yet"),
          h(
            "p",
            {},
            "A session is a conversation with an agent that works in one of your directories.",
          ),
          h(
            "button",
            { type: "button", class: "button primary", onclick: () => this.newSession() },
            "New session",
          ),
        ),
      ),
    );
  }

  /** @param {string} title @param {Node} body */
  #shell(title, body) {
    return h(
      "main",
      { class: "page", id: "page" },
      h(
        "div",
        { class: "top" },
        h(
          "header",
          { class: "bar" },
          iconButton("Sessions", PATHS.menu, () => this.drawer(true), {
            class: "icon-button drawer",
          }),
          h("h1", {}, title || "Towpath"),
        ),
      ),
      body,
    );
  }

  /** @param {import("./gateway.js").SessionListFrame} frame */
  #received(frame) {
    /** What the user is told once the list is drawn. @type {(() => void) | undefined} */
    let notify;
    switch (frame.frame) {
      case "sessions":
        this.sessions = new Map(frame.sessions.map((it) => [it.id, it]));
        this.page?.showHead();
        if (!this.loaded) {
          this.loaded = true;
          if (!location.hash || location.hash === "#/") this.route();
        } else void this.#checkVersion();
        if (this.page && !this.sessions.has(this.page.id)) this.#deleted(this.page.id);
        notify = () => this.notifications.first([...this.sessions.values()]);
        break;
      case "session": {
        const before = this.sessions.get(frame.session.id);
        notify = () => this.notifications.changed(before, frame.session, this.page?.id);
        this.sessions.set(frame.session.id, frame.session);
        if (frame.session.id === this.page?.id) this.page.showHead();
        break;
      }
      case "session_deleted":
        this.sessions.delete(frame.id);
        break;
      default:
        return;
    }
    this.#drawSidebar();
    notify?.();
  }

  /** After a restart of the server it may be a newer one, with a newer page. */
  async #checkVersion() {
    const me = await callApi("GET", "/me").catch((problem) => {
      if (problem.status === 401) location.reload();
    });
    if (me && me.version !== this.me.version) {
      this.me.version = me.version;
      toast(`The server was updated to version ${me.version}. Reload the page to use it.`);
    }
  }

  #ordered() {
    const rank = { needs_you: 0, running: 1, idle: 2 };
    return [...this.sessions.values()].sort(
      (a, b) => rank[a.tier] - rank[b.tier] || b.active - a.active,
    );
  }

  #drawSidebar() {
    const sessions = this.#ordered();
    this.sidebar.show(sessions, this.page?.id ?? "");
    const needs = sessions.filter((it) => it.tier === "needs_you").length;
    this.notifications.badge(needs, this.sessions.get(this.page?.id ?? "")?.title ?? undefined);
    if (this.page) {
      const others = sessions.filter(
        (it) => it.tier === "needs_you" && it.id !== this.page?.id,
      ).length;
      this.page.badge.hidden = others === 0;
      this.page.badge.textContent = String(others);
    }
  }

  connectionChanged() {
    const states = [this.connection?.state, this.page?.connection?.state].filter(
      (it) => it !== undefined,
    );
    const worst =
      states.find((it) => it.kind === "lost") ??
      states.find((it) => it.kind === "connecting") ??
      states[0];
    if (worst) this.sidebar.showConnection(worst);
    // A WebSocket does not report why it was refused. The client may have been signed out.
    if (worst?.kind === "lost" && Date.now() - this.checkedAt > 10_000) {
      this.checkedAt = Date.now();
      void this.#checkVersion();
    }
  }

  /** @param {boolean} open */
  drawer(open) {
    this.sidebar.element.classList.toggle("open", open);
    this.scrim.hidden = !open;
    if (open)
      /** @type {HTMLElement | null} */ (this.sidebar.element.querySelector("a, button"))?.focus();
  }

  /** @param {string} id */
  #deleted(id) {
    this.sessions.delete(id);
    if (this.page?.id === id) {
      toast("This session was deleted.");
      location.hash = "#/";
    }
  }

  newSession() {
    void import("./dialogs/new-session.js").then(({ openNewSession }) =>
      openNewSession(this.me, [...this.sessions.values()]),
    );
  }

  async switch() {
    const { openSwitcher } = await import("./dialogs/switcher.js");
    openSwitcher(this.#ordered(), this.page?.id ?? "");
  }

  async settings() {
    const { openSettings } = await import("./dialogs/settings.js");
    openSettings(this.me, (id) => this.sessions.get(id)?.title ?? undefined);
  }

  async help() {
    const { openHelp } = await import("./dialogs/help.js");
    openHelp();
  }

  #nextWaiting() {
    const waiting = this.#ordered().filter((it) => it.tier === "needs_you");
    const here = waiting.findIndex((it) => it.id === this.page?.id);
    const next = waiting[(here + 1) % waiting.length];
    if (!next) toast("No session needs you.");
    else if (next.id === this.page?.id) this.page.requestCards?.focus();
    else location.hash = `#/s/${next.id}`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) void this.switch();
      return;
    }
    if (
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      document.querySelector("dialog[open], [popover=auto]:popover-open")
    )
      return;
    if (event.key === "Escape" && this.sidebar.element.classList.contains("open")) {
      this.drawer(false);
      return;
    }
    // Single-key shortcuts never apply while the user types.
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("input, textarea, select, [contenteditable]")) return;
    if (
      (event.key === "Enter" || event.key === " ") &&
      target.closest("a, button, summary, [role=button]")
    )
      return;
    const keys = /** @type {Record<string, () => void>} */ ({
      "?": () => void this.help(),
      w: () => this.#nextWaiting(),
      c: () => this.newSession(),
      t: () => (preferences.theme = dark() ? "light" : "dark"),
    });
    if (this.page?.key(event)) event.preventDefault();
    else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  }
}

/** @param {Element} dialog */
function closeDialog(dialog) {
  /** @type {HTMLDialogElement} */ (dialog).close();
}

function dark() {
  return (
    (preferences.theme ||
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark"
  );
}
