/**
 * The page of one session: what it says above, what it waits for and the composer below.
 *
 * The page asks and the server decides: nothing a person does here is shown before the server has
 * told of it.
 *
 * @module
 */

import { at, newId, streamAddress } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation, keepOlder } from "./conversation.js";
import { Desk } from "./desk.js";
import { fill, h, icon, iconButton, PATHS } from "./elements.js";
import { Follower } from "./follower.js";
import { markSeen, preferences } from "./preferences.js";
import { Scroll } from "./scroll.js";
import { toast } from "./toast.js";
import { StatusLine } from "./status.js";
import { Transcript } from "./transcript.js";
import { base, MODES } from "./words.js";

/** @typedef {import("./gateway.js").Frame} Frame */
/** @typedef {import("./gateway.js").Request} Request */

/** Beyond so many items the oldest turns are let go, while the end is followed. */
const MOST = 600;
const LEFT = 400;

/** Where there is room for changes and tasks beside the conversation, and where that takes nothing from it. */
export const ROOM = matchMedia("(min-width: 1280px)");
export const AMPLE = matchMedia("(min-width: 1480px)");

const TRIES = ["Give me a tour", "Ask me a question", "Make a plan", "Edit a file", "Use a helper agent"];

export class SessionPage {
  /** @param {string} id @param {{ me: import("./gateway.js").Me, gone: (id: string) => void, lineChanged: () => void, openDrawer: () => void, session: (id: string) => import("./gateway.js").Session | undefined }} app */
  constructor(id, app) {
    this.id = id;
    this.app = app;
    this.desk = new Desk(id);
    /** @type {Conversation | undefined} */ this.conversation = undefined;
    /** @type {import("./asks.js").Asks | undefined} */ this.asks = undefined;
    /** @type {import("./find.js").Find | undefined} */ this.finder = undefined;
    /** @type {import("./side.js").Side | undefined} */ this.side = undefined;
    this.unseen = 0;
    this.loading = false;

    this.title = h("h1", {}, "…");
    this.where = h("bdi", {});
    this.project = h("strong", {});
    this.badge = h("span", { class: "badge", hidden: true });
    this.older = h("div", { class: "older" });
    this.log = h("div", { class: "log", role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: "-1", id: "log" }, this.older);
    this.empty = h("div", { class: "empty", hidden: true });
    this.pill = h("button", { type: "button", class: "new-pill", hidden: true, onclick: () => this.scroll.toEnd() });
    this.queue = h("ol", { class: "waiting-prompts", "aria-label": "Waiting prompts", hidden: true });
    this.todos = h("div", {});
    this.asksPlace = h("div", {});
    /** Who may only watch is shown nothing to press. */
    this.drives = app.me.role !== "watch";
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.findPlace = h("div", { class: "find-place" });

    this.transcript = new Transcript(id, this.log, {
      drives: this.drives,
      answer: (request, decision) => {
        const found = this.conversation?.requests.find((it) => it.id === request);
        if (found) void this.desk.answer(found, decision === "allow" ? { decision } : { decision, message: "The user said no." });
      },
      again: (text) => this.composer.quote(text),
      comment: (line) => void this.comment(line),
      rewind: (prompt) => void import("./rewind.js").then((it) => it.openRewind(this, prompt)),
      openFile: (path, turns) => void import("./changes.js").then((it) => it.openFile(this, path, turns)),
      me: () => app.me.name,
    });
    this.scroll = new Scroll(this.log, () => this.#seen(), () => void this.#loadOlder());
    this.composer = new Composer(id, {
      send: (prompt) => this.send(prompt),
      edit: (prompt, text) => this.desk.edit(prompt, text),
      interrupt: () => this.#interrupt(),
      cycleMode: () => this.#cycleMode(),
      last: () => this.#last(),
      commands: async () => (await this.desk.abilities()).commands,
      files: (like) => this.desk.files(like),
    });
    const choices = () => import("./choices.js");
    this.status = new StatusLine({
      chooseMode: (anchor) => void choices().then((it) => it.chooseMode(anchor, this)),
      chooseModel: (anchor) => void choices().then((it) => it.chooseModel(anchor, this)),
    });
    const menu = iconButton("More about this session", PATHS.more, () => void choices().then((it) => it.sessionMenu(menu, this)), { "aria-haspopup": "menu" });
    this.sideButton = iconButton("Changes and tasks (p)", PATHS.side, () => void this.toggleSide(), { "aria-expanded": "false" });
    const drawer = iconButton("Sessions", PATHS.menu, () => app.openDrawer(), { class: "icon-button drawer" });
    drawer.append(this.badge);
    this.composer.element.hidden = !this.drives;
    const dock = h("div", { class: "dock" }, h("div", { class: "pill-row" }, this.pill), this.asksPlace, this.todos, this.queue, this.composer.element, this.status.element);
    this.scroll.mind(dock);
    this.element = h("main", { class: "page", id: "page" },
      h("header", { class: "bar" }, drawer, this.title, h("span", { class: "where" }, this.where), iconButton("Find in this conversation (f)", PATHS.search, () => void this.find()), this.sideButton, menu),
      this.banner, this.findPlace, this.empty, this.log, dock);

    const address = () => streamAddress(at(id, `/follow${this.conversation ? `?since=${this.conversation.revision}` : ""}`));
    this.follower = new Follower(address, (frame) => this.#heard(frame), () => {
      app.lineChanged();
      // The line changes for the first time while the follower is being made.
      if (this.follower) this.tick();
    });
    this.clock = setInterval(() => this.tick(), 500);
    if (ROOM.matches && (preferences.side ?? AMPLE.matches)) {
      // Its room is kept from the beginning, so that nothing moves when it comes.
      this.element.classList.add("beside");
      void this.#madeSide();
    }
  }

  close() {
    clearInterval(this.clock);
    this.follower.close();
    this.scroll.close();
    this.side?.close();
    this.element.remove();
  }

  focus() {
    this.composer.focus();
  }

  /** Puts a line of a change into the composer, to be commented on. @param {import("./changes.js").Commented} line */
  async comment(line) {
    const { quoted } = await import("./changes.js");
    this.composer.quote(quoted(line, this.where.textContent ?? "", this.composer.area.value));
  }

  /** Shows or hides changes and tasks. */
  async toggleSide() {
    (await this.#madeSide()).toggle();
  }

  async #madeSide() {
    const { Side } = await import("./side.js");
    return (this.side ??= new Side(this));
  }

  async find() {
    const { Find } = await import("./find.js");
    if (!this.finder) {
      this.finder = new Find(this.log);
      this.findPlace.append(this.finder.element);
    }
    this.finder.open();
  }

  /** Keys that are not typed anywhere. @param {KeyboardEvent} event */
  key(event) {
    if (this.asks?.key(event)) return true;
    if (event.key === "Escape" && this.conversation?.busy) this.#interrupt();
    else if (event.key === "f") void this.find();
    else if (event.key === "p") void this.toggleSide();
    else if (event.key === "i" || event.key === "/") {
      this.composer.focus();
      if (event.key === "/" && !this.composer.area.value) this.composer.put("/");
    } else if (event.key === "G" || event.key === "End") this.scroll.toEnd();
    else return false;
    return true;
  }

  /** Shows what the session is called and how it is set: the agent says so itself once it runs. */
  named() {
    const session = this.app.session(this.id);
    const head = this.conversation?.head;
    this.title.textContent = head?.title || session?.title || "New session";
    this.where.textContent = head?.cwd || session?.cwd || "";
    this.project.textContent = base(this.where.textContent) || "its directory";
    if (this.conversation) this.status.show(this.conversation, session);
  }

  /** @param {Frame} frame */
  #heard(frame) {
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
          this.follower.say({ frame: "snapshot" });
          return;
        }
        this.#count(changes);
        const grew = changes.items.size || changes.grown.size || changes.gone.size || changes.turns.size;
        if (grew) this.scroll.keeping(() => this.transcript.update(changes));
        this.#parts(changes.parts);
        if (changes.turns.size || changes.items.size) this.side?.show();
        this.#trim();
        break;
      }
      case "gone":
        this.app.gone(this.id);
        return;
      default:
        return;
    }
    this.#seen();
  }

  #trim() {
    const { conversation } = this;
    if (!conversation || !this.scroll.following || conversation.items.size <= MOST) return;
    const changes = conversation.trim(LEFT);
    this.scroll.keeping(() => this.transcript.update(changes));
  }

  /** @param {Set<import("./conversation.js").Part>} parts */
  #parts(parts) {
    const { conversation } = this;
    if (!conversation) return;
    if (parts.has("head") || parts.has("usage")) {
      this.named();
    }
    if (parts.has("status")) {
      this.composer.setBusy(conversation.busy);
      this.log.setAttribute("aria-busy", String(conversation.busy));
    }
    if ((parts.has("queue") || parts.has("status")) && (conversation.queue.length || !this.queue.hidden)) void this.#queue();
    if (parts.has("requests")) void this.#requests();
    if (parts.has("todos") && (conversation.todos.length || this.todos.firstChild)) void import("./todos.js").then((it) => it.showTodos(this.todos, this.conversation?.todos ?? []));
    this.#greet(conversation);
    this.tick();
    if (parts.has("todos")) this.side?.show();
  }

  async #queue() {
    const { showQueue } = await import("./queue.js");
    const { conversation, desk } = this;
    if (!conversation) return;
    showQueue(this.queue, conversation.queue, conversation.busy, {
      edit: (prompt) => this.composer.edit(prompt.id, prompt.text),
      remove: (prompt) => void desk.takeBack(prompt),
      move: (prompt, before) => void desk.move(prompt, before),
      steer: (prompt) => void desk.steer(prompt, (text) => this.composer.quote(text)),
    });
  }

  async #requests() {
    if (!this.asks) {
      if (!this.conversation?.requests.length || !this.drives) return;
      const { Asks } = await import("./asks.js");
      this.asks ??= new Asks(this.asksPlace, {
        answer: (request, answer) => this.desk.answer(request, answer),
        leave: () => this.composer.focus(),
        comment: (line) => void this.comment(line),
        mayTakeFocus: () => this.composer.restful && !document.querySelector("dialog[open]") && !this.findPlace.contains(document.activeElement),
      });
    }
    const { requests } = this.conversation ?? { requests: [] };
    const left = this.asks.requests.filter((it) => !requests.some((now) => now.id === it.id));
    this.asks.show(requests);
    void this.desk.tellWho(left);
  }

  tick() {
    const now = Date.now();
    const { line } = this.follower;
    this.status.tick(this.conversation, line, now);
    this.asks?.tick(now);
    this.transcript.tick(now);
    // A line that comes back at once was never worth a word.
    this.banner.hidden = !(line.is === "lost" && now - line.since > 600);
    if (this.banner.hidden) return;
    const wait = Math.max(0, Math.ceil(((line.retry ?? now) - now) / 1000));
    const words = wait > 0 ? `Connection lost. Next try in ${wait} s.` : "Connection lost. Trying again.";
    if (!this.banner.firstChild) fill(this.banner, h("span", {}), h("button", { type: "button", class: "button", onclick: () => this.follower.retry() }, "Try now"));
    const place = /** @type {HTMLElement} */ (this.banner.firstChild);
    if (place.textContent !== words) place.textContent = words;
  }

  /** @param {import("./conversation.js").Changes} changes */
  #count(changes) {
    if (this.scroll.following) return;
    for (const id of changes.items) {
      const item = this.conversation?.items.get(id);
      if (item && !this.transcript.entries.has(id) && !item.housekeeping && item.html) this.unseen += 1;
    }
  }

  #seen() {
    if (this.scroll.following) this.unseen = 0;
    fill(this.pill, icon(PATHS.down), this.unseen ? `${this.unseen} new` : "To the end");
    this.pill.hidden = this.scroll.following;
    if (this.conversation && this.scroll.following && document.visibilityState === "visible") markSeen(this.id, this.conversation.revision);
  }

  async #loadOlder() {
    const { conversation } = this;
    if (!conversation?.more || this.loading || !conversation.first) return;
    this.loading = true;
    const say = (/** @type {string} */ words) => (this.older.textContent = words);
    this.scroll.keeping(() => say("Loading what came before"));
    try {
      const page = await this.desk.older(conversation.first);
      if (conversation !== this.conversation) return;
      const changes = conversation.prepend(page);
      this.scroll.keeping(() => {
        say("");
        this.transcript.update(changes);
      });
    } catch (problem) {
      this.scroll.keeping(() => say(/** @type {Error} */ (problem).message));
      return;
    } finally {
      this.loading = false;
    }
    if (this.scroll.short) void this.#loadOlder();
  }

  /** @param {Conversation} conversation */
  #greet(conversation) {
    const nothing = conversation.items.size === 0 && !conversation.busy && conversation.queue.length === 0;
    this.empty.hidden = !nothing;
    this.log.hidden = nothing;
    if (!nothing || this.empty.firstChild) return;
    const tries = this.app.me.demo ? TRIES : conversation.head.suggestion ? [conversation.head.suggestion] : [];
    const send = (/** @type {string} */ text) => void this.send({ id: newId(), text, images: [], delivery: "queue" }).catch((problem) => toast(problem.message));
    fill(this.empty, h("img", { src: "/icon.svg", alt: "" }), h("h2", {}, "What shall it do?"),
      h("p", {}, "It works in ", this.project, ", asks before it changes things, and goes on when you close this page."),
      tries.length > 0 && h("div", { class: "tries" }, ...tries.map((text) => h("button", { type: "button", class: "button", onclick: () => send(text) }, text))));
  }

  /** @param {import("./composer.js").Outgoing} prompt */
  send(prompt) {
    this.scroll.toEnd();
    return this.desk.send(prompt);
  }

  #interrupt() {
    void this.desk.interrupt(this.conversation?.queue.length ?? 0);
  }

  #cycleMode() {
    const here = MODES.findIndex((it) => it.value === (this.conversation?.head.mode ?? this.app.session(this.id)?.mode ?? "default"));
    // What never asks again is chosen in the menu, never in passing.
    void this.desk.set({ mode: MODES[(here + 1) % 3].value });
  }

  /** What ↑ brings back: the last prompt that waits, to change it, or else the last one said. */
  #last() {
    const waiting = this.conversation?.queue.filter((it) => it.state === "queued").pop();
    if (waiting) return { id: waiting.id, text: waiting.text };
    const said = [...(this.conversation?.items.values() ?? [])].filter((it) => it.prompt?.speaker === "person").sort((a, b) => a.place[0] - b.place[0]).pop();
    return said?.prompt && { text: said.prompt.text };
  }
}
