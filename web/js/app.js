/**
 * The whole page: the sidebar, one session or the usage in the middle, and global keys. The
 * address says what is shown, so reloading and the back button work.
 *
 * @module
 */

import { callApi, streamAddress } from "./api.js";
import { fill, h, iconButton, PATHS } from "./ui/elements.js";
import { Connection } from "./connection.js";
import { currentAddress, isSheetOpen, navigate, openLayer, replaceAddress } from "./ui/layers.js";
import { Notifications } from "./notifications.js";
import { preferences } from "./preferences.js";
import { Sidebar } from "./sidebar.js";
import { SessionPage } from "./session-page.js";
import { toast } from "./ui/toast.js";

/** @typedef {import("./gateway.js").Session} Session */

/** The address of a session, or of a session of the CLI, with a position in it or a view of it. */
const ADDRESS = /^#\/([st])\/([\w-]+)(?:\/at\/(\d+\.\d+)|\/([a-z]+)(?:\/(.*))?)?$/;

/** The session list is a drawer. */
const DRAWER = matchMedia("(max-width: 820px), (max-height: 500px)");

/** How long after `g` a letter switches the view, in milliseconds. */
const SWITCH_MS = 1500;

export class App {
  /** @param {HTMLElement} place @param {import("./gateway.js").Me} me */
  constructor(place, me) {
    this.me = me;
    /** @type {Map<string, Session>} */ this.sessions = new Map();
    this.loaded = false;
    this.checkedAt = 0;
    /** When `g` was pressed. */
    this.switchingSince = -Infinity;
    /** @type {{ destroy: () => void, onclose: () => void } | undefined} */
    this.closeWatcher = undefined;
    /** Tells the history that the drawer was closed. @type {(() => void) | undefined} */
    this.drawerClosed = undefined;
    /** The address that is shown, without what lies above it. */
    this.address = "";
    /** @type {SessionPage | undefined} */ this.page = undefined;
    /** A session of the CLI. @type {import("./sessions/transcript-page.js").TranscriptPage | undefined} */
    this.transcript = undefined;
    this.sidebar = new Sidebar({
      sessions: () => this.#ordered(),
      go: (address) => this.#go(address),
      leaveSearch: () => (this.page ?? this.transcript)?.focus(),
      newSession: (cwd) => this.newSession(cwd),
      settings: () => void this.settings(),
      help: () => void this.help(),
    });
    this.scrim = h("div", { class: "scrim", hidden: true, onclick: () => this.drawer(false) });
    this.middle = h("div", {});
    this.notifications = new Notifications((id) => navigate(`#/s/${id}`), me);
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
    this.notifications.connection = this.connection;
    addEventListener("hashchange", () => this.#addressChanged());
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => this.#drawSidebar());
    setInterval(() => this.#drawSidebar(), 30_000);
    this.connectionChanged();
    this.route();
  }

  #addressChanged() {
    if (currentAddress().base === this.address) void this.#openSheet();
    else this.route();
  }

  /** Opens the sheet that the address names. */
  async #openSheet() {
    const { base, sheet } = currentAddress();
    if (!sheet || isSheetOpen(sheet)) return;
    const { openSheet } = await import("./sheets.js");
    if (!(await openSheet(this, sheet)) && currentAddress().sheet === sheet)
      replaceAddress(base || "#/");
  }

  route() {
    this.address = currentAddress().base;
    const [, kind, id, at, view = "", rest = ""] = ADDRESS.exec(this.address) ?? [];
    const session = kind === "s" ? id : undefined;
    const transcript = kind === "t" ? id : undefined;
    this.drawer(false);
    if (session !== this.page?.id || transcript !== this.transcript?.id || !id) {
      // A dialog of another session, which the back button left, would act on that one.
      if (this.page || this.transcript)
        document.querySelectorAll("dialog[open]").forEach((it) => closeDialog(it));
      this.page?.close();
      this.transcript?.close();
      this.page = this.transcript = undefined;
    }
    const focus =
      !matchMedia("(pointer: coarse)").matches && document.activeElement !== this.sidebar.field;
    if (session && !this.page) {
      this.page = new SessionPage(session, {
        me: this.me,
        deleted: (id) => this.#deleted(id),
        connectionChanged: () => this.connectionChanged(),
        openDrawer: () => this.drawer(true),
        session: (id) => this.sessions.get(id),
      });
      fill(this.middle, this.page.element);
      if (focus) this.page.focus();
    } else if (transcript && !this.transcript) void this.#openTranscript(transcript, at, focus);
    else if (!id) void this.#otherPage();
    void this.page?.views.show(view, rest);
    if (at) void (this.page ?? this.transcript)?.goTo(at);
    this.sidebar.usage.toggleAttribute("aria-current", this.address === "#/usage");
    this.#drawSidebar();
    void this.#openSheet();
  }

  /** @param {string} id @param {string | undefined} at @param {boolean} focus */
  async #openTranscript(id, at, focus) {
    const { TranscriptPage } = await import("./sessions/transcript-page.js");
    if (this.transcript || ADDRESS.exec(this.address)?.[2] !== id) return;
    this.transcript = new TranscriptPage(id, {
      me: this.me,
      openDrawer: () => this.drawer(true),
      continued: (session) => {
        // Going back does not lead to what can no longer be continued.
        replaceAddress(`#/s/${session}`);
        this.route();
        void this.sidebar.others?.then((it) => it.refresh());
      },
    });
    fill(this.middle, this.transcript.element);
    if (at) void this.transcript.goTo(at);
    if (focus) this.transcript.focus();
    this.#drawSidebar();
  }

  /** Shows an address, even if it is the current one. @param {string} address */
  #go(address) {
    if (this.address === address) this.route();
    else navigate(address);
  }

  async #otherPage() {
    if (this.address === "#/usage") {
      const { usagePage } = await import("./dialogs/usage.js");
      fill(this.middle, this.#shell("Usage", usagePage(this.me.role !== "watch")));
      return;
    }
    if (!this.loaded) {
      fill(this.middle, this.#shell("", h("div", { class: "empty" }, "…")));
      return;
    }
    const first = this.#ordered()[0];
    if (first) {
      const { sheet } = currentAddress();
      replaceAddress(`#/s/${first.id}${sheet && `?sheet=${sheet}`}`);
      this.route();
      return;
    }
    const { noSessions } = await import("./sessions/no-sessions.js");
    if (this.address && this.address !== "#/") return;
    const begin = () => this.newSession();
    fill(
      this.middle,
      this.#shell(
        "",
        noSessions(begin, () => this.#showOthers()),
      ),
    );
  }

  #showOthers() {
    this.drawer(DRAWER.matches);
    void this.sidebar.toggleOthers(true);
    this.sidebar.othersButton.focus();
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
          if (!this.address || this.address === "#/") this.route();
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
    this.sidebar.show(sessions, this.page?.id ?? this.transcript?.id ?? "");
    const needs = sessions.filter((it) => it.tier === "needs_you").length;
    const title = this.sessions.get(this.page?.id ?? "")?.title ?? this.transcript?.name;
    this.notifications.badge(needs, title ?? undefined);
    const page = this.page ?? this.transcript;
    if (page) {
      const others = sessions.filter((it) => it.tier === "needs_you" && it.id !== page.id).length;
      page.badge.hidden = others === 0;
      page.badge.textContent = String(others);
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
    const before = this.sidebar.element.classList.contains("open");
    this.sidebar.element.classList.toggle("open", open);
    this.scrim.hidden = !open;
    if (open === before) return;
    if (!open) {
      this.drawerClosed?.();
      this.closeWatcher?.destroy();
      this.closeWatcher = undefined;
      return;
    }
    this.drawerClosed = openLayer(() => this.drawer(false));
    // Android's back gesture goes to this first, where there is one.
    const { CloseWatcher } = /** @type {any} */ (window);
    if (CloseWatcher) {
      const watcher = new CloseWatcher();
      watcher.onclose = () => this.drawer(false);
      this.closeWatcher = watcher;
    }
    /** @type {HTMLElement | null} */ (this.sidebar.element.querySelector("a, button"))?.focus();
  }

  /** @param {string} id */
  #deleted(id) {
    this.sessions.delete(id);
    if (this.page?.id === id) {
      toast("This session was deleted.");
      navigate("#/");
    }
  }

  /** @param {string} [cwd] */
  newSession(cwd) {
    void import("./dialogs/new-session.js").then(({ openNewSession }) =>
      openNewSession(this.me, [...this.sessions.values()], cwd),
    );
  }

  async switch() {
    const { openSwitcher } = await import("./dialogs/switcher.js");
    openSwitcher(this.#ordered(), this.page?.id ?? "", (text) => this.search(text));
  }

  /** Goes to the field that searches in all sessions. @param {string} [text] */
  search(text) {
    this.drawer(DRAWER.matches);
    this.sidebar.startSearch(text);
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
    else navigate(`#/s/${next.id}`);
  }

  /** `g` and the first letter of a view show it. @param {KeyboardEvent} event */
  #switchView(event) {
    const { timeStamp } = event;
    const second = timeStamp - this.switchingSince < SWITCH_MS;
    this.switchingSince = event.key === "g" && !second ? timeStamp : -Infinity;
    if (!second) return event.key === "g" && this.page !== undefined;
    const address = /^[a-z]$/.test(event.key) && this.page?.views.addressOf(event.key);
    if (address) navigate(address);
    return Boolean(address);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) void this.switch();
      return;
    }
    if (
      (event.ctrlKey || event.metaKey) &&
      event.shiftKey &&
      event.key.toLowerCase() === "f" &&
      !document.querySelector("dialog[open]")
    ) {
      event.preventDefault();
      this.search();
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
    if (this.#switchView(event)) {
      event.preventDefault();
      return;
    }
    const keys = /** @type {Record<string, () => void>} */ ({
      "?": () => void this.help(),
      w: () => this.#nextWaiting(),
      c: () => this.newSession(),
      s: () => this.search(),
      "/": () => this.search(),
      t: () => (preferences.theme = dark() ? "light" : "dark"),
    });
    if ((this.page ?? this.transcript)?.key(event)) event.preventDefault();
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
