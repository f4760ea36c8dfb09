/**
 * The page of a session that the CLI ran without this server: what was said, read from the CLI's own
 * file. It is followed while the file grows, and can be continued here.
 *
 * @module
 */

import { newId, readIfChanged } from "../api.js";
import { Conversation, keepOlder } from "../conversation/conversation.js";
import { OlderItems } from "../conversation/older-items.js";
import { Scroll } from "../conversation/scroll.js";
import { Transcript } from "../conversation/transcript.js";
import { createSession } from "../create-session.js";
import { fill, h, icon, iconButton, PATHS } from "../ui/elements.js";
import { shortAge } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { branchName, shortTitle, transcriptFacts } from "./transcript-facts.js";

await loadStylesheet("/css/transcript-page.css");

/** @typedef {import("../gateway.js").TranscriptPage} Page */

/** How often a file that was written lately is read again, and any other, in milliseconds. */
const SHORT_PAUSE = 2000;
const LONG_PAUSE = 10_000;
/** The longest time between two attempts after errors. */
const MAX_PAUSE = 30_000;
/** How long after its last change a file counts as written lately. */
const LATELY = 120_000;
/** How many items are read to connect what is new with what is shown. */
const MAX_GAP = 1000;

export class TranscriptPage {
  /**
   * @param {string} id
   * @param {{ me: import("../gateway.js").Me, openDrawer: () => void, continued: (session: string) => void }} app
   */
  constructor(id, app) {
    this.id = id;
    this.app = app;
    /** @type {Conversation | undefined} */ this.conversation = undefined;
    /** @type {Page["transcript"] | undefined} */ this.about = undefined;
    /** @type {string | null} */ this.tag = null;
    this.wanted = "";
    this.failures = 0;
    this.closed = false;
    // Pressing twice, or again after a lost response, creates one session.
    this.newIds = { continue: newId(), fork: newId() };
    this.title = h("h1", {}, "…");
    this.where = h("bdi", {});
    this.badge = h("span", { class: "badge", hidden: true });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.searchPlace = h("div", { class: "search-place" });
    const olderPlace = h("div", { class: "older" });
    const read = this.#readOlder.bind(this);
    this.olderItems = new OlderItems(this, olderPlace, read);
    const log = { class: "log", role: "log", "aria-label": "Conversation", "aria-live": "off" };
    this.log = h("div", { ...log, tabindex: "-1", id: "log" }, olderPlace);
    this.empty = h("div", { class: "empty", hidden: true });
    this.pill = h(
      "button",
      { type: "button", class: "new-pill", hidden: true, onclick: () => this.scroll.toEnd() },
      icon(PATHS.down),
      "Jump to the end",
    );
    this.facts = h("p", { class: "continue-facts" });
    this.buttons = h("div", { class: "continue-buttons" });
    this.error = h("p", { class: "continue-error", role: "alert", hidden: true });
    this.bar = h(
      "section",
      { class: "continue", "aria-label": "Continue this session", hidden: true },
      this.facts,
      this.error,
      this.buttons,
    );
    const nothing = () => undefined;
    /** @type {Transcript} */
    this.transcript = new Transcript("", this.log, {
      canDrive: false,
      deny: nothing,
      resend: nothing,
      comment: nothing,
      canRewind: () => false,
      rewind: nothing,
      openFile: nothing,
      me: () => app.me.name,
    });
    /** @type {Scroll} */
    this.scroll = new Scroll(
      this.log,
      () => (this.pill.hidden = this.scroll.following),
      () => void this.olderItems.load(),
    );
    const dock = h("div", { class: "dock" }, h("div", { class: "pill-row" }, this.pill), this.bar);
    this.scroll.observe(dock);
    const drawer = iconButton("Sessions", PATHS.menu, () => app.openDrawer(), {
      class: "icon-button drawer",
    });
    drawer.append(this.badge);
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
      ),
      this.banner,
      this.searchPlace,
    );
    this.element = h("main", { class: "page", id: "page" }, top, this.empty, this.log, dock);
    this.onVisible = () => document.visibilityState === "visible" && void this.#poll();
    document.addEventListener("visibilitychange", this.onVisible);
    addEventListener("online", this.onVisible);
    void this.#poll();
  }

  async older() {
    return this.olderItems;
  }

  /** The title, once it is known. */
  get name() {
    return this.about && shortTitle(this.about.title);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
    removeEventListener("online", this.onVisible);
    this.scroll.close();
    this.element.remove();
  }

  focus() {
    const button = /** @type {HTMLElement | null} */ (this.buttons.querySelector(".primary"));
    (button ?? this.log).focus({ preventScroll: true });
  }

  /** Goes to a position of the conversation. @param {string} position */
  async goTo(position) {
    this.wanted = this.conversation ? "" : position;
    if (!this.conversation) return;
    const { goToPosition } = await import("../conversation/reveal.js");
    await goToPosition(this, position);
  }

  async find() {
    const { ConversationSearch } = await import("../conversation/search.js");
    if (!this.searchBar) {
      this.searchBar = new ConversationSearch(this.log);
      this.searchPlace.append(this.searchBar.element);
    }
    this.searchBar.open();
  }

  /** Handles a key that is not typed into a field. @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "f") void this.find();
    else if (event.key === "G" || event.key === "End") this.scroll.toEnd();
    else return false;
    return true;
  }

  /** Reads what is new, and plans to do so again. Nothing is read while the page is hidden. */
  async #poll() {
    clearTimeout(this.timer);
    if (this.closed || document.visibilityState !== "visible" || this.polling) return;
    this.polling = true;
    try {
      const read = await readIfChanged(`/transcripts/${this.id}`, this.tag);
      if (this.closed) return;
      this.failures = 0;
      if (read) await this.#received(read.json, read.tag);
      this.banner.hidden = true;
    } catch (problem) {
      if (this.closed) return;
      this.#failed(/** @type {import("../api.js").Problem} */ (problem));
    } finally {
      this.polling = false;
    }
    this.timer = setTimeout(() => void this.#poll(), this.#pause());
  }

  /** How long to wait, in milliseconds: longer after each failure. */
  #pause() {
    if (this.failures) return Math.min(MAX_PAUSE, SHORT_PAUSE * 2 ** (this.failures - 1));
    const lately = Date.now() - (this.about?.modified ?? 0) < LATELY;
    return lately || this.about?.in_terminal ? SHORT_PAUSE : LONG_PAUSE;
  }

  /** @param {import("../api.js").Problem} problem */
  #failed({ status, message }) {
    this.failures += 1;
    if (status === 401) location.reload();
    const text = status === 404 ? "This session is not there any more." : message;
    if (this.conversation) {
      if (this.banner.textContent !== text) this.banner.textContent = text;
      this.banner.hidden = false;
      return;
    }
    this.title.textContent = "Session of the CLI";
    this.log.hidden = true;
    this.empty.hidden = false;
    fill(this.empty, h("h2", {}, "This session cannot be shown"), h("p", {}, text));
  }

  /** @param {Page} read @param {string | null} tag */
  async #received({ transcript, page }, tag) {
    const before = this.conversation;
    const conversation = new Conversation({ ...NOTHING, ...page });
    if (before) await this.#connect(before, conversation);
    if (this.closed) return;
    this.tag = tag;
    this.about = transcript;
    this.title.textContent = this.name ?? "";
    this.where.textContent = transcript.cwd;
    this.conversation = conversation;
    this.empty.hidden = conversation.items.size > 0;
    this.log.hidden = !this.empty.hidden;
    if (!this.empty.hidden) fill(this.empty, h("p", {}, "Nothing was said in this session."));
    this.scroll.keeping(() => this.transcript.show(conversation));
    this.#showBar();
    if (!before) this.scroll.toEnd();
    if (this.wanted) void this.goTo(this.wanted);
    else if (this.scroll.short) void this.olderItems.load();
  }

  /**
   * Reads what lies between the items that are shown and the newest ones, so that those stay.
   *
   * @param {Conversation} before
   * @param {Conversation} after
   */
  async #connect(before, after) {
    const connected = () => [...after.items.keys()].some((id) => before.items.has(id));
    while (!connected() && after.more && after.first && after.items.size < MAX_GAP)
      after.prepend(await this.#readOlder(after.first, 200));
    keepOlder(before, after);
  }

  /** @param {string} before @param {number} limit @returns {Promise<import("../gateway.js").ItemPage>} */
  async #readOlder(before, limit) {
    const path = `/transcripts/${this.id}?before=${before}&limit=${limit}`;
    const read = await readIfChanged(path, null);
    return read?.json.page;
  }

  #showBar() {
    const { about } = this;
    if (!about) return;
    const { in_terminal: inTerminal, session } = about;
    const age = shortAge(about.modified, Date.now());
    const when = age === "now" ? "written now" : `${age} ago`;
    const facts = [branchName(about), transcriptFacts(about), when].filter(Boolean);
    const state = session
      ? "Continued in a session of this server."
      : inTerminal
        ? "In use in a terminal. You can continue in a copy."
        : "From a terminal.";
    fill(
      this.facts,
      inTerminal && h("span", { class: "status-dot running" }),
      h("span", {}, h("strong", {}, state), " ", h("bdi", {}, facts.join(" · "))),
    );
    const canDrive = this.app.me.role !== "watch";
    const key = JSON.stringify([canDrive, session, inTerminal]);
    // A button that someone is about to press stays the same.
    if (this.buttons.dataset.for !== key) {
      this.buttons.dataset.for = key;
      fill(this.buttons, ...(session ? [openButton(session)] : canDrive ? this.#actions() : []));
    }
    this.buttons.hidden = !this.buttons.firstChild;
    this.bar.hidden = false;
  }

  #actions() {
    const fork = h(
      "button",
      {
        type: "button",
        class: this.about?.in_terminal ? "button primary" : "button",
        title: "Continue in a copy; this session stays as it is",
        onclick: () => void this.#create("fork"),
      },
      "Fork",
    );
    if (this.about?.in_terminal) return [fork];
    const go = h(
      "button",
      { type: "button", class: "button primary", onclick: () => void this.#create("continue") },
      "Continue here",
    );
    return [fork, go];
  }

  /** @param {"continue" | "fork"} how */
  async #create(how) {
    const { about } = this;
    if (!about) return;
    const buttons = [...this.buttons.querySelectorAll("button")];
    const title = [...(about.title ?? "").replace(/\s+/g, " ").trim()].slice(0, 200).join("");
    buttons.forEach((it) => (it.disabled = true));
    this.error.hidden = true;
    try {
      const { id } = await createSession({
        id: this.newIds[how],
        cwd: about.cwd,
        title: title || undefined,
        resume: about.id,
        fork: how === "fork" || undefined,
      });
      this.app.continued(id);
    } catch (problem) {
      const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
      this.error.textContent = message;
      this.error.hidden = false;
      // A terminal opened it in the meantime.
      if (kind === "open-elsewhere") this.about = { ...about, in_terminal: true };
      this.#showBar();
    } finally {
      buttons.forEach((it) => (it.disabled = false));
    }
  }
}

/** @param {string} session */
function openButton(session) {
  return h("a", { class: "button primary", href: `#/s/${session}` }, "Open it");
}

/** What a conversation has that no process drives. @type {import("../gateway.js").Snapshot} */
const NOTHING = {
  revision: 0,
  head: {},
  status: { phase: { kind: "idle" }, queue_held: false, schedules: 0 },
  items: [],
  turns: [],
  more: false,
  queue: [],
  requests: [],
  todos: [],
  usage: { tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 } },
};
