/**
 * The page of one session: the conversation, and below it the requests and the composer.
 *
 * The server decides: nothing a user does here is shown before the server has sent it.
 *
 * @module
 */

import { sessionPath, newId, streamAddress } from "./api.js";
import { Composer } from "./composer/composer.js";
import { Conversation, keepOlder } from "./conversation/conversation.js";
import { SessionActions } from "./session-actions.js";
import { fill, h, icon, iconButton, PATHS } from "./ui/elements.js";
import { Connection } from "./connection.js";
import { markSeen, preferences } from "./preferences.js";
import { Scroll } from "./conversation/scroll.js";
import { toast } from "./ui/toast.js";
import { showFailure } from "./composer/failure.js";
import { StatusLine } from "./composer/status-line.js";
import { Transcript } from "./conversation/transcript.js";
import { baseName } from "./ui/format.js";

/** @typedef {import("./gateway.js").Frame} Frame */
/** @typedef {import("./gateway.js").Request} Request */

/** With more items the oldest turns are removed from the page while it follows the end. */
const MAX_ITEMS = 600;
const ITEMS_AFTER_TRIM = 400;

/** The side panel fits beside the conversation. */
export const PANEL_FITS = matchMedia("(min-width: 1280px)");
/** The side panel takes no width from the conversation. */
export const PANEL_HAS_SPACE = matchMedia("(min-width: 1480px)");

const EXAMPLES = [
  "Give me a tour",
  "Ask me a question",
  "Make a plan",
  "Edit a file",
  "Use a helper agent",
];

export class SessionPage {
  /** @param {string} id @param {{ me: import("./gateway.js").Me, deleted: (id: string) => void, connectionChanged: () => void, openDrawer: () => void, session: (id: string) => import("./gateway.js").Session | undefined }} app */
  constructor(id, app) {
    this.id = id;
    this.app = app;
    this.actions = new SessionActions(id);
    /** @type {Conversation | undefined} */ this.conversation = undefined;
    /** @type {import("./requests/request-cards.js").RequestCards | undefined} */ this.requestCards =
      undefined;
    /** @type {import("./conversation/search.js").ConversationSearch | undefined} */ this.searchBar =
      undefined;
    /** @type {import("./conversation/side-panel.js").SidePanel | undefined} */ this.side =
      undefined;
    this.unread = 0;
    this.loading = false;

    this.title = h("h1", {}, "…");
    this.where = h("bdi", {});
    this.project = h("strong", {});
    this.badge = h("span", { class: "badge", hidden: true });
    this.older = h("div", { class: "older" });
    this.log = h(
      "div",
      {
        class: "log",
        role: "log",
        "aria-label": "Conversation",
        "aria-live": "off",
        tabindex: "-1",
        id: "log",
      },
      this.older,
    );
    this.empty = h("div", { class: "empty", hidden: true });
    this.pill = h("button", {
      type: "button",
      class: "new-pill",
      hidden: true,
      onclick: () => this.scroll.toEnd(),
    });
    this.queue = h("ol", { class: "queued-prompts", "aria-label": "Queued prompts", hidden: true });
    this.todos = h("div", {});
    this.failure = h("div", { class: "failure", role: "alert", hidden: true });
    this.requestsPlace = h("div", { class: "requests" });
    /** Clients with the role `watch` see no buttons that change something. */
    this.canDrive = app.me.role !== "watch";
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.searchPlace = h("div", { class: "search-place" });

    this.transcript = new Transcript(id, this.log, {
      canDrive: this.canDrive,
      deny: (request) => {
        const found = this.conversation?.requests.find((it) => it.id === request);
        if (found) void this.actions.answer(found, { decision: "deny" });
      },
      resend: (text) => this.composer.quote(text),
      comment: (line) => void this.comment(line),
      rewind: (prompt) =>
        void import("./conversation/rewind.js").then((it) => it.openRewind(this, prompt)),
      openFile: (path, turns) =>
        void import("./conversation/file-changes.js").then((it) => it.openFile(this, path, turns)),
      me: () => app.me.name,
    });
    this.scroll = new Scroll(
      this.log,
      () => this.#seen(),
      () => void this.#loadOlder(),
    );
    this.composer = new Composer(id, {
      send: (prompt) => this.send(prompt),
      edit: (prompt, text) => this.actions.edit(prompt, text),
      interrupt: () => this.#interrupt(),
      cycleMode: () => this.#cycleMode(),
      last: () => this.#last(),
      commands: async () => (await this.actions.abilities()).commands ?? [],
      files: (like) => this.actions.files(like),
    });
    const menus = () => import("./session-menu.js");
    this.status = new StatusLine({
      chooseMode: (anchor) => void menus().then((it) => it.chooseMode(anchor, this)),
      chooseModel: (anchor) => void menus().then((it) => it.chooseModel(anchor, this)),
      modes: app.me.modes,
    });
    const menu = iconButton(
      "Session menu",
      PATHS.more,
      () => void menus().then((it) => it.sessionMenu(menu, this)),
      { "aria-haspopup": "menu" },
    );
    this.sideButton = iconButton(
      "Changes and tasks (p)",
      PATHS.side,
      () => void this.toggleSide(),
      { "aria-expanded": "false" },
    );
    const drawer = iconButton("Sessions", PATHS.menu, () => app.openDrawer(), {
      class: "icon-button drawer",
    });
    drawer.append(this.badge);
    this.composer.element.hidden = !this.canDrive;
    const dock = h(
      "div",
      { class: "dock" },
      h("div", { class: "pill-row" }, this.pill),
      this.requestsPlace,
      this.failure,
      this.todos,
      this.queue,
      this.composer.element,
      this.status.element,
    );
    this.scroll.observe(dock);
    const top = h(
      "div",
      { class: "top" },
      h(
        "header",
        { class: "bar" },
        drawer,
        this.title,
        h("span", { class: "where" }, this.where),
        iconButton("Find in this conversation (f)", PATHS.search, () => void this.find()),
        this.sideButton,
        menu,
      ),
      this.banner,
      this.searchPlace,
    );
    this.element = h("main", { class: "page", id: "page" }, top, this.empty, this.log, dock);
    // What is docked at the bottom may be as high as the window below this.
    this.heights = new ResizeObserver(() =>
      this.element.style.setProperty("--top", `${top.offsetHeight}px`),
    );
    this.heights.observe(top);

    const address = () =>
      streamAddress(
        sessionPath(
          id,
          `/follow${this.conversation ? `?since=${this.conversation.revision}` : ""}`,
        ),
      );
    /** @type {Connection<import("./gateway.js").Frame>} */
    this.connection = new Connection(
      address,
      (frame) => this.#received(frame),
      () => {
        app.connectionChanged();
        // The state changes for the first time while the connection is being constructed.
        if (this.connection) this.tick();
      },
    );
    this.clock = setInterval(() => this.tick(), 500);
    if (PANEL_FITS.matches && (preferences.side ?? PANEL_HAS_SPACE.matches)) {
      // Its space is reserved from the start, so that nothing moves when it is loaded.
      this.element.classList.add("beside");
      void this.#loadSidePanel();
    }
  }

  close() {
    clearInterval(this.clock);
    this.connection.close();
    this.scroll.close();
    this.heights.disconnect();
    this.side?.close();
    this.element.remove();
  }

  focus() {
    this.composer.focus();
  }

  /** Quotes a line of a diff in the composer. @param {import("./conversation/file-changes.js").DiffLine} line */
  async comment(line) {
    const { quoteLine } = await import("./conversation/file-changes.js");
    this.composer.quote(quoteLine(line, this.where.textContent ?? "", this.composer.area.value));
  }

  /** Shows or hides the side panel. */
  async toggleSide() {
    (await this.#loadSidePanel()).toggle();
  }

  async #loadSidePanel() {
    const { SidePanel } = await import("./conversation/side-panel.js");
    return (this.side ??= new SidePanel(this));
  }

  async find() {
    const { ConversationSearch } = await import("./conversation/search.js");
    if (!this.searchBar) {
      this.searchBar = new ConversationSearch(this.log);
      this.searchPlace.append(this.searchBar.element);
    }
    this.searchBar.open();
  }

  /** Handles a key that is not typed into a field. @param {KeyboardEvent} event */
  key(event) {
    if (this.requestCards?.key(event)) return true;
    if (event.key === "Escape" && this.conversation?.busy) this.#interrupt();
    else if (event.key === "f") void this.find();
    else if (event.key === "p") void this.toggleSide();
    else if (event.key === "i" || event.key === "/") {
      this.composer.focus();
      if (event.key === "/" && !this.composer.area.value) this.composer.setText("/");
    } else if (event.key === "G" || event.key === "End") this.scroll.toEnd();
    else return false;
    return true;
  }

  /** Shows the title, the directory and the settings, which the agent reports once it runs. */
  showHead() {
    const session = this.app.session(this.id);
    const head = this.conversation?.head;
    this.title.textContent = head?.title || session?.title || "New session";
    this.where.textContent = head?.cwd || session?.cwd || "";
    this.project.textContent = baseName(this.where.textContent) || "its directory";
    if (this.conversation) this.status.show(this.conversation, session);
  }

  /** @param {Frame} frame */
  #received(frame) {
    switch (frame.frame) {
      case "snapshot": {
        const before = this.conversation;
        const conversation = new Conversation(frame);
        if (before) keepOlder(before, conversation);
        this.conversation = conversation;
        this.scroll.keeping(() => this.transcript.show(conversation));
        this.#parts(new Set(["head", "status", "queue", "requests", "todos", "usage"]));
        if (!before) this.scroll.toEnd();
        if (this.scroll.short) void this.#loadOlder();
        break;
      }
      case "update": {
        const changes = this.conversation?.apply(frame);
        if (!changes) {
          this.connection.send({ frame: "snapshot" });
          return;
        }
        this.#compactNumber(changes);
        const grew =
          changes.items.size || changes.appended.size || changes.removed.size || changes.turns.size;
        if (grew) this.scroll.keeping(() => this.transcript.update(changes));
        this.#parts(changes.parts);
        if (changes.turns.size || changes.items.size) this.side?.show();
        this.#trim();
        break;
      }
      case "deleted":
        this.app.deleted(this.id);
        return;
      default:
        return;
    }
    this.#seen();
  }

  #trim() {
    const { conversation } = this;
    if (!conversation || !this.scroll.following || conversation.items.size <= MAX_ITEMS) return;
    const changes = conversation.trim(ITEMS_AFTER_TRIM);
    this.scroll.keeping(() => this.transcript.update(changes));
  }

  /** @param {Set<import("./conversation/conversation.js").Part>} parts */
  #parts(parts) {
    const { conversation } = this;
    if (!conversation) return;
    if (parts.has("head") || parts.has("usage")) {
      this.showHead();
    }
    if (parts.has("status")) {
      this.composer.setBusy(conversation.busy);
      this.log.setAttribute("aria-busy", String(conversation.busy));
    }
    if (parts.has("status"))
      showFailure(this.failure, conversation.status, this.canDrive && (() => this.actions.wake()));
    if (
      (parts.has("queue") || parts.has("status")) &&
      (conversation.queue.length || !this.queue.hidden)
    )
      void this.#queue();
    if (parts.has("requests")) void this.#requests();
    if (parts.has("todos") && (conversation.todos.length || this.todos.firstChild))
      void import("./composer/todos.js").then((it) =>
        it.showTodos(this.todos, this.conversation?.todos ?? []),
      );
    this.#showEmptyState(conversation);
    this.tick();
    if (parts.has("todos")) this.side?.show();
  }

  async #queue() {
    const { showQueue } = await import("./composer/queue.js");
    const { conversation, actions } = this;
    if (!conversation) return;
    showQueue(this.queue, conversation.queue, conversation.busy, {
      edit: (prompt) => this.composer.edit(prompt.id, prompt.text),
      remove: (prompt) => void actions.remove(prompt),
      move: (prompt, before) => void actions.move(prompt, before),
      steer: (prompt) => void actions.steer(prompt),
    });
  }

  async #requests() {
    if (!this.requestCards) {
      if (!this.conversation?.requests.length || !this.canDrive) return;
      const { RequestCards } = await import("./requests/request-cards.js");
      this.requestCards ??= new RequestCards(this.requestsPlace, {
        answer: (request, answer) => this.actions.answer(request, answer),
        leave: () => this.composer.focus(),
        comment: (line) => void this.comment(line),
        mayTakeFocus: () =>
          this.composer.isIdle &&
          !document.querySelector("dialog[open]") &&
          !this.searchPlace.contains(document.activeElement),
      });
    }
    const { requests } = this.conversation ?? { requests: [] };
    const resolved = this.requestCards.requests.filter(
      (it) => !requests.some((now) => now.id === it.id),
    );
    this.requestCards.show(requests);
    void this.actions.reportAnswers(resolved);
  }

  tick() {
    const now = Date.now();
    const { state } = this.connection;
    this.status.tick(this.conversation, state, now);
    this.requestCards?.tick(now);
    this.transcript.tick(now);
    // A connection that returns immediately needs no message.
    this.banner.hidden = !(state.kind === "lost" && now - state.since > 600);
    if (this.banner.hidden) return;
    const wait = Math.max(0, Math.ceil(((state.retry ?? now) - now) / 1000));
    const text =
      wait > 0 ? `Connection lost. Reconnecting in ${wait} s.` : "Connection lost. Reconnecting.";
    if (!this.banner.firstChild)
      fill(
        this.banner,
        h("span", {}),
        h(
          "button",
          { type: "button", class: "button", onclick: () => this.connection.retry() },
          "Reconnect now",
        ),
      );
    const place = /** @type {HTMLElement} */ (this.banner.firstChild);
    if (place.textContent !== text) place.textContent = text;
  }

  /** @param {import("./conversation/conversation.js").Changes} changes */
  #compactNumber(changes) {
    if (this.scroll.following) return;
    for (const id of changes.items) {
      const item = this.conversation?.items.get(id);
      if (item && !this.transcript.entries.has(id) && !item.housekeeping && item.html)
        this.unread += 1;
    }
  }

  #seen() {
    if (this.scroll.following) this.unread = 0;
    fill(this.pill, icon(PATHS.down), this.unread ? `${this.unread} new` : "Jump to the end");
    this.pill.hidden = this.scroll.following;
    if (this.conversation && this.scroll.following && document.visibilityState === "visible")
      markSeen(this.id, this.conversation.revision);
  }

  async #loadOlder() {
    const { conversation } = this;
    if (!conversation?.more || this.loading || !conversation.first) return;
    this.loading = true;
    const show = (/** @type {string} */ text) => (this.older.textContent = text);
    this.scroll.keeping(() => show("Loading earlier messages"));
    try {
      const page = await this.actions.older(conversation.first);
      if (conversation !== this.conversation) return;
      const changes = conversation.prepend(page);
      this.scroll.keeping(() => {
        show("");
        this.transcript.update(changes);
      });
    } catch (problem) {
      this.scroll.keeping(() => show(/** @type {Error} */ (problem).message));
      return;
    } finally {
      this.loading = false;
    }
    if (this.scroll.short) void this.#loadOlder();
  }

  /** @param {Conversation} conversation */
  #showEmptyState(conversation) {
    const isEmpty =
      conversation.items.size === 0 && !conversation.busy && conversation.queue.length === 0;
    this.empty.hidden = !isEmpty;
    this.log.hidden = isEmpty;
    if (!isEmpty || this.empty.firstChild) return;
    const examples = this.app.me.demo
      ? EXAMPLES
      : conversation.head.suggestion
        ? [conversation.head.suggestion]
        : [];
    const send = (/** @type {string} */ text) =>
      void this.send({ id: newId(), text, images: [], delivery: "queue" }).catch((problem) =>
        toast(problem.message),
      );
    fill(
      this.empty,
      h("img", { src: "/icon.svg", alt: "" }),
      h("h2", {}, "What should Claude do?"),
      h(
        "p",
        {},
        "Claude works in ",
        this.project,
        ", asks before it changes things, and continues when you close this page.",
      ),
      examples.length > 0 &&
        h(
          "div",
          { class: "examples" },
          ...examples.map((text) =>
            h("button", { type: "button", class: "button", onclick: () => send(text) }, text),
          ),
        ),
    );
  }

  /** @param {import("./composer/composer.js").Outgoing} prompt */
  send(prompt) {
    this.scroll.toEnd();
    return this.actions.send(prompt);
  }

  #interrupt() {
    void this.actions.interrupt(this.conversation?.queue.length ?? 0);
  }

  #cycleMode() {
    const modes = this.app.me.modes.filter((it) => it.shortcut);
    const current = this.conversation?.head.mode ?? this.app.session(this.id)?.mode ?? "default";
    const here = modes.findIndex((it) => it.id === current);
    const next = modes[(here + 1) % modes.length];
    if (next) void this.actions.set({ mode: next.id });
  }

  /** What ↑ brings back: the last queued prompt, to edit it, or else the last prompt. */
  #last() {
    const queued = this.conversation?.queue.filter((it) => it.state === "queued").pop();
    if (queued) return { id: queued.id, text: queued.text };
    const sent = [...(this.conversation?.items.values() ?? [])]
      .filter((it) => it.prompt?.author === "user")
      .sort((a, b) => a.position[0] - b.position[0])
      .pop();
    return sent?.prompt ? { text: sent.prompt.text } : undefined;
  }
}
