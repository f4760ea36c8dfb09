/**
 * Loads what came before the loaded part of a conversation: page by page, or as far as a position.
 *
 * @module
 */

import { Changes, comparePositions } from "./conversation.js";

/** @typedef {import("../gateway.js").Item["position"]} Position */
/** @typedef {{ conversation: import("./conversation.js").Conversation | undefined, transcript: import("./transcript.js").Transcript, scroll: import("./scroll.js").Scroll }} ConversationPage */

const PAGE = 50;
/** What one request may ask for at most. */
const LARGE_PAGE = 200;

export class OlderItems {
  /**
   * @param {ConversationPage} page
   * @param {HTMLElement} element says that something is being loaded, or why it could not be
   * @param {(before: string, limit: number) => Promise<import("../gateway.js").ItemPage>} read
   */
  constructor(page, element, read) {
    this.page = page;
    this.read = read;
    this.element = element;
    /** @type {Promise<boolean> | undefined} */ this.loading = undefined;
  }

  /** Loads one page, and more as long as there is nothing to scroll. */
  async load() {
    if (this.loading) return;
    if (await this.#run(() => this.#read(PAGE))) if (this.page.scroll.short) void this.load();
  }

  /**
   * Loads everything from a position on. Returns whether it is there.
   *
   * @param {Position} position
   */
  async loadFrom(position) {
    while (this.loading) await this.loading;
    return this.#run(async () => {
      // What is read in several steps is shown at once, because each step lays out the whole page.
      const all = new Changes();
      for (;;) {
        const { conversation } = this.page;
        if (!conversation) return undefined;
        const first = parsePosition(conversation.first);
        if (!conversation.more || !first || comparePositions(first, position) <= 0) return all;
        const changes = await this.#read(LARGE_PAGE);
        // A snapshot that came meanwhile begins anew.
        if (!changes) continue;
        changes.items.forEach((it) => all.items.add(it));
        changes.turns.forEach((it) => all.turns.add(it));
      }
    });
  }

  /** @param {number} limit */
  async #read(limit) {
    const { conversation } = this.page;
    if (!conversation?.more || !conversation.first) return undefined;
    this.#say("Loading earlier messages");
    const page = await this.read(conversation.first, limit);
    return conversation === this.page.conversation ? conversation.prepend(page) : undefined;
  }

  /** @param {() => Promise<Changes | undefined>} read */
  #run(read) {
    this.loading = read()
      .then((changes) => {
        this.page.scroll.keeping(() => {
          this.element.textContent = "";
          if (changes) this.page.transcript.update(changes);
        });
        return changes !== undefined;
      })
      .catch((problem) => {
        this.#say(problem.message);
        return false;
      })
      .finally(() => (this.loading = undefined));
    return this.loading;
  }

  /** @param {string} text */
  #say(text) {
    if (this.element.textContent === text) return;
    this.page.scroll.keeping(() => (this.element.textContent = text));
  }
}

/** @param {string | undefined} text @returns {Position | undefined} */
export function parsePosition(text) {
  const [seq, rank] = (text ?? "").split(".").map(Number);
  return Number.isInteger(seq) && Number.isInteger(rank) ? [seq, rank] : undefined;
}
