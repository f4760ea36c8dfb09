/**
 * The page of one session: the conversation, and below it the requests and the composer.
 *
 * The server decides: nothing a user does here is shown before the server has sent it.
 *
 * @module
 */

import { callApi, sessionPath, newId, streamAddress } from "./api.js";
import { Composer } from "./composer/composer.js";
import { Conversation, keepOlder } from "./conversation/conversation.js";
import { EXAMPLES, fillEmptyState } from "./conversation/empty-state.js";
import { SessionActions } from "./session-actions.js";
import { SessionViews } from "./session-views.js";
import { fill, h, icon, iconButton, PATHS } from "./ui/elements.js";
import { Connection } from "./connection.js";
import { markSeen, preferences } from "./preferences.js";
import { Scroll } from "./conversation/scroll.js";
import { toast } from "./ui/toast.js";
import { StatusLine } from "./composer/status-line.js";
import { Transcript } from "./conversation/transcript.js";
import { baseName, hasFailed, isServerProblem } from "./ui/format.js";

/** @typedef {import("./gateway.js").Frame} Frame */
/** @typedef {import("./gateway.js").Request} Request */

/** With more items the oldest turns are removed from the page while it follows the end. */
const MAX_ITEMS = 600;
const ITEMS_AFTER_TRIM = 400;

/** MCP servers are not looked at more often than this, in milliseconds. */
const SERVER_CHECK_PAUSE = 5000;

/** The side panel fits beside the conversation. */
export const PANEL_FITS = matchMedia("(min-width: 1280px)");
/** The side panel takes no width from the conversation. */
export const PANEL_HAS_SPACE = matchMedia("(min-width: 1480px)");

export class SessionPage {
  /** @param {string} id @param {{ me: import("./gateway.js").Me, deleted: (id: string) => void, connectionChanged: () => void, openDrawer: () => void, session: (id: string) => import("./gateway.js").Session | undefined }} app */
  constructor(id, app) {
    this.id = id;
    this.app = app;
    this.actions = new SessionActions(id, app.me.name);
    /** @type {Conversation | undefined} */ this.conversation = undefined;
    /** @type {string | undefined} Why the server cannot show the session. */
    this.lossReason = undefined;
    /** @type {import("./requests/request-cards.js").RequestCards | undefined} */ this.requestCards =
      undefined;
    /** @type {import("./conversation/search.js").ConversationSearch | undefined} */ this.searchBar =
      undefined;
    /** @type {import("./conversation/side-panel.js").SidePanel | undefined} */ this.side =
      undefined;
    /** Where dropped files go; without it, where the agent may read them. @type {(() => string) | undefined} */
    this.uploadDirectory = undefined;
    /** Called after files were uploaded. @type {((paths: string[]) => void) | undefined} */
    this.uploaded = undefined;
    this.unread = 0;
    /** Resolved once the conversation is there. @type {Promise<void>} */
    this.ready = new Promise((resolve) => (this.becomeReady = resolve));
    /** A position to go to once the conversation is there. */
    this.wanted = "";
    this.serversChecked = 0;
    /** What the agent says about itself. @type {import("./gateway.js").AgentInfo | undefined} */
    this.agent = undefined;

    this.title = h("h1", {}, "…");
    this.where = h("bdi", {});
    this.project = h("strong", {});
    this.badge = h("span", { class: "badge", hidden: true });
    this.agentLabel = h("span", { class: "agent-label", hidden: true });
    this.workerLabel = h("span", { class: "worker-label", hidden: true });
    this.olderPlace = h("div", { class: "older" });
    /** @type {import("./conversation/older-items.js").OlderItems | undefined} */
    this.olderItems = undefined;
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
      this.olderPlace,
    );
    this.empty = h("div", { class: "empty", hidden: true });
    this.pill = h("button", {
      type: "button",
      class: "new-pill",
      hidden: true,
      onclick: () => this.scroll.toEnd(),
    });
    this.queue = h("ol", { class: "queued-prompts", "aria-label": "Queued prompts", hidden: true });
    this.held = h("div", { class: "queue-held", role: "status", hidden: true });
    this.todos = h("div", {});
    this.failure = h("div", { class: "failure", role: "alert", hidden: true });
    this.requestsPlace = h("div", { class: "requests" });
    /** Clients with the role `watch` see no buttons that change something. */
    this.canDrive = app.me.role !== "watch";
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.searchPlace = h("div", { class: "search-place" });

    /** @type {Transcript} */
    this.transcript = new Transcript(id, this.log, {
      canDrive: this.canDrive,
      deny: (request) => {
        const found = this.conversation?.requests.find((it) => it.id === request);
        if (found) void this.actions.answer(found, { decision: "deny" });
      },
      resend: (text) => this.composer.quote(text),
      comment: (line) => void this.comment(line),
      canRewind: () => !this.isAcp,
      rewind: (prompt) =>
        void import("./conversation/rewind.js").then((it) => it.openRewind(this, prompt)),
      openFile: (path, turns) =>
        void import("./conversation/file-changes.js").then((it) => it.openFile(this, path, turns)),
      directory: () => this.conversation?.head.cwd ?? "",
      me: () => app.me.name,
    });
    /** @type {Scroll} */
    this.scroll = new Scroll(
      this.log,
      () => this.#seen(),
      () => void this.#loadOlder(),
    );
    const menus = () => import("./session-menu.js");
    this.composer = new Composer(id, {
      send: (prompt) => this.send(prompt),
      edit: (prompt, text) => this.actions.edit(prompt, text),
      interrupt: () => this.#interrupt(),
      // A request is answered with keys outside of the field; its turn is not to be stopped by accident.
      leave: () => (this.requestCards?.current ? this.requestCards.focus() : this.#interrupt()),
      resume: () => void this.actions.resumeQueue(),
      cycleMode: () => void menus().then((it) => it.cycleMode(this)),
      last: () => this.#last(),
      commands: async () => (await this.actions.abilities()).commands ?? [],
      files: (like) => this.actions.files(like),
    });
    this.status = new StatusLine({
      chooseMode: (anchor) => void menus().then((it) => it.chooseMode(anchor, this)),
      chooseModel: (anchor) => void menus().then((it) => it.chooseModel(anchor, this)),
      showAgent: () => void import("./dialogs/agent-info.js").then((it) => it.openAgentInfo(this)),
      showSchedule: () =>
        void import("./schedule/schedule-dialog.js").then((it) => it.openSchedule(this)),
      continueAt: (resets) =>
        void import("./schedule/schedule-dialog.js").then((it) => it.continueAt(this, resets)),
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
      this.held,
      this.queue,
      this.composer.element,
      this.status.element,
    );
    this.scroll.observe(dock);
    this.views = new SessionViews(this);
    const top = h(
      "div",
      { class: "top" },
      h(
        "header",
        { class: "bar" },
        drawer,
        this.title,
        this.agentLabel,
        this.workerLabel,
        h("span", { class: "where" }, this.where),
        this.views.element,
        iconButton("Find in this conversation (f)", PATHS.search, () => void this.find()),
        this.sideButton,
        menu,
      ),
      this.banner,
      this.searchPlace,
    );
    this.element = h(
      "main",
      { class: "page", id: "page" },
      top,
      this.empty,
      this.log,
      dock,
      this.views.place,
    );
    if (this.canDrive) this.#acceptDrops();
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
    this.composer.close();
    this.views.close();
    this.element.remove();
  }

  focus() {
    if (this.views.view) this.views.view.focus();
    else this.composer.focus();
  }

  /** Files can be dropped anywhere; the code for that is loaded when the first one is dragged here. */
  #acceptDrops() {
    const accept = (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      this.element.removeEventListener("dragenter", accept);
      void import("./files/drop.js").then((it) => it.acceptDrops(this, event));
    };
    this.element.addEventListener("dragenter", accept);
  }

  /** What loads earlier items. Most conversations are opened without any. */
  async older() {
    const { OlderItems } = await import("./conversation/older-items.js");
    const read = this.actions.older.bind(this.actions);
    return (this.olderItems ??= new OlderItems(this, this.olderPlace, read));
  }

  async #loadOlder() {
    if (!this.conversation?.more) return;
    try {
      void (await this.older()).load();
    } catch {
      this.olderPlace.textContent = "Earlier messages could not be loaded.";
    }
  }

  /** Goes to a position of the conversation. @param {string} position */
  async goTo(position) {
    this.wanted = this.conversation ? "" : position;
    if (!this.conversation) return;
    const { goToPosition } = await import("./conversation/reveal.js");
    await goToPosition(this, position);
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
    if (this.views.name) return false;
    if (this.requestCards?.key(event)) return true;
    if (event.key === "Escape" && this.conversation?.busy) this.#interrupt();
    else if (event.key === "r" && this.composer.held) void this.actions.resumeQueue();
    else if (event.key === "f") void this.find();
    else if (event.key === "p") void this.toggleSide();
    else if (event.key === "o")
      void import("./conversation/outline.js").then((it) => it.openOutline(this));
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
    this.agentLabel.textContent = session?.agent.acp ? session.agent.title : "";
    this.agentLabel.hidden = !this.agentLabel.textContent;
    this.agentLabel.style.setProperty("--agent", session?.agent.color ?? null);
    if (session?.worker)
      void workerPresence().then((it) => it.showWorker(this.workerLabel, session));
    this.composer.showAgent(this.agentName, this.canSteer);
    if (this.conversation) this.status.show(this.conversation, session, this.agent);
  }

  /** What the agent is called in sentences. */
  get agentName() {
    const agent = this.app.session(this.id)?.agent;
    return agent?.acp ? agent.title : "Claude";
  }

  /** Whether the agent is driven over the Agent Client Protocol: it lists its modes, and cannot rewind. */
  get isAcp() {
    return this.app.session(this.id)?.agent.acp ?? false;
  }

  /** Whether a message can join the running turn. */
  get canSteer() {
    return !this.isAcp || (this.agent?.can_steer ?? false);
  }

  /** @param {Frame} frame */
  #received(frame) {
    switch (frame.frame) {
      case "snapshot": {
        const before = this.conversation;
        const conversation = new Conversation(frame);
        if (before) keepOlder(before, conversation);
        this.conversation = conversation;
        this.lossReason = undefined;
        this.scroll.keeping(() => this.transcript.show(conversation));
        this.#parts(new Set(["head", "status", "queue", "requests", "todos", "usage"]));
        if (!before) {
          this.scroll.toEnd();
          this.becomeReady?.();
          void this.composer.restoreUnsent((id) => conversation.hasPrompt(id));
        } else this.composer.dropArrived((id) => conversation.hasPrompt(id));
        if (this.wanted) void this.goTo(this.wanted);
        else if (this.scroll.short) void this.#loadOlder();
        break;
      }
      case "update": {
        const changes = this.conversation?.apply(frame);
        if (!changes) {
          this.connection.send({ frame: "snapshot" });
          return;
        }
        this.#countUnread(changes);
        const grew =
          changes.items.size || changes.appended.size || changes.removed.size || changes.turns.size;
        if (grew) this.scroll.keeping(() => this.transcript.update(changes));
        this.#parts(changes.parts);
        this.composer.dropArrived((id) => this.conversation?.hasPrompt(id) ?? false);
        if (changes.turns.size || changes.items.size) this.side?.show();
        this.#trim();
        break;
      }
      case "deleted":
        this.app.deleted(this.id);
        return;
      case "failed":
        this.lossReason = frame.detail;
        this.connection.backOff();
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
    if (parts.has("head") || parts.has("usage") || parts.has("status")) {
      this.showHead();
    }
    if (parts.has("status")) {
      if (this.composer.busy && !conversation.busy) this.views.refresh();
      // An empty message resumes what was stopped, and never allows a cost.
      const { queue_held: held, budget } = conversation.status;
      this.composer.setBusy(conversation.busy, Boolean(held && !budget));
      this.log.setAttribute("aria-busy", String(conversation.busy));
    }
    if (parts.has("status")) {
      const { phase, sign_in: signIn } = conversation.status;
      if (!this.failure.hidden || signIn || hasFailed(phase))
        void import("./composer/failure.js").then((it) => it.showFailure(this));
    }
    if (
      (parts.has("queue") || parts.has("status")) &&
      (conversation.queue.length || !this.queue.hidden)
    )
      void import("./composer/queue.js").then((it) => it.showQueue(this));
    if (parts.has("head") || (parts.has("status") && !conversation.busy)) void this.#checkServers();
    if (parts.has("requests")) {
      this.views.showWaiting(conversation.requests.length > 0);
      void this.#requests();
    }
    if (parts.has("todos") && (conversation.todos.length || this.todos.firstChild))
      void import("./composer/todos.js").then((it) =>
        it.showTodos(this.todos, this.conversation?.todos ?? []),
      );
    this.#showEmptyState(conversation);
    this.tick();
    if (parts.has("todos")) this.side?.show();
  }

  /** The agent describes its MCP servers whenever it starts, which changes the head or the status. */
  async #checkServers() {
    if (Date.now() - this.serversChecked < SERVER_CHECK_PAUSE) return;
    this.serversChecked = Date.now();
    /** @type {import("./gateway.js").AgentInfo | undefined} */
    const agent = await callApi("GET", sessionPath(this.id, "/agent")).catch(() => undefined);
    this.agent = agent ?? this.agent;
    this.showHead();
    const problems = agent?.mcp_servers.items.filter((it) => isServerProblem(it.status));
    this.status.showServers(problems?.length ?? 0);
  }

  async #requests() {
    if (!this.requestCards) {
      if (!this.conversation?.requests.length || !this.canDrive) return;
      const { requestCards } = await import("./requests/request-cards.js");
      this.requestCards ??= requestCards(this);
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
    const lost = state.kind === "lost" && now - state.since > 600;
    const session = this.app.session(this.id);
    // A gateway that cannot reach its fleet says so of all sessions, also if their workers are there.
    const absent = session?.worker_away || (session?.worker && session.problem);
    this.banner.hidden = !lost && !absent;
    if (!lost) {
      if (session && absent) void workerPresence().then((it) => it.showAbsence(this, session));
      return;
    }
    const wait = Math.max(0, Math.ceil(((state.retry ?? now) - now) / 1000));
    // Why the server has closed the connection, if it said so.
    const lead = this.lossReason
      ? `${this.lossReason[0].toUpperCase()}${this.lossReason.slice(1)}.`
      : "Connection lost.";
    const text = wait > 0 ? `${lead} Reconnecting in ${wait} s.` : `${lead} Reconnecting.`;
    if (this.banner.dataset.kind !== "lost") {
      this.banner.dataset.kind = "lost";
      fill(
        this.banner,
        h("span", {}),
        h(
          "button",
          { type: "button", class: "button", onclick: () => this.connection.retry() },
          "Reconnect now",
        ),
      );
    }
    const place = /** @type {HTMLElement} */ (this.banner.firstChild);
    if (place.textContent !== text) place.textContent = text;
  }

  /** @param {import("./conversation/conversation.js").Changes} changes */
  #countUnread(changes) {
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

  /** @param {Conversation} conversation */
  #showEmptyState(conversation) {
    const isEmpty =
      conversation.items.size === 0 && !conversation.busy && conversation.queue.length === 0;
    this.empty.hidden = !isEmpty;
    this.log.hidden = isEmpty;
    if (!isEmpty || this.empty.firstChild) return;
    const { suggestion } = conversation.head;
    const examples = this.app.me.demo ? EXAMPLES : suggestion ? [suggestion] : [];
    fillEmptyState(
      this.empty,
      this.project,
      this.agentName,
      examples,
      (text) =>
        void this.send({ id: newId(), text, images: [], delivery: "queue" }).catch((problem) =>
          toast(problem.message),
        ),
    );
  }

  /** @param {import("./composer/composer.js").Outgoing} prompt */
  send(prompt) {
    this.scroll.toEnd();
    return this.actions.send(prompt);
  }

  #interrupt() {
    // Once is enough: a second Esc must not stop what the first one made room for.
    if (this.conversation?.status.phase.kind === "interrupting") return;
    void this.actions.interrupt();
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

/** What is shown of the machine of a fleet. */
const workerPresence = () => import("./sessions/worker-presence.js");
