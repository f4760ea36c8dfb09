/**
 * What the agent waits for, docked above the composer: one card at a time, with a count.
 *
 * A card lives as long as its request, however often the server repeats the list, so that whatever
 * somebody typed or chose in it stays.
 *
 * @module
 */

import { fill, h, iconButton } from "./elements.js";
import { permissionCard } from "./permission.js";
import { planCard } from "./plan.js";
import { questionCard } from "./question.js";
import { styled } from "./styles.js";
import { about } from "./words.js";

await styled("/css/requests.css");

/** @typedef {import("./gateway.js").Request} Request */
/** @typedef {{ title: string, body: HTMLElement, key: (event: KeyboardEvent) => boolean }} Card */
/** @typedef {{ decision: "allow" | "deny", message?: string, answers?: Record<string, string>, remember?: object, mode?: string, interrupt?: boolean }} Answer */

/** Keys do nothing in the first moment of a card: they were meant for what was there before. */
const GRACE = 350;

export class Asks {
  /**
   * @param {HTMLElement} place
   * @param {{ answer: (request: Request, answer: Answer) => Promise<void>, leave: () => void, mayTakeFocus: () => boolean, comment: (line: import("./changes.js").Commented) => void }} page
   */
  constructor(place, page) {
    this.place = place;
    this.page = page;
    /** @type {Request[]} */ this.requests = [];
    /** @type {Map<string, { element: HTMLElement, card: Card, age: HTMLElement, count: HTMLElement }>} */ this.cards = new Map();
    this.current = "";
    this.shownAt = 0;
  }

  /** @param {Request[]} requests */
  show(requests) {
    this.requests = requests;
    const ids = new Set(requests.map((it) => it.id));
    for (const id of [...this.cards.keys()]) if (!ids.has(id)) this.cards.delete(id);
    if (!ids.has(this.current)) {
      const held = this.place.contains(document.activeElement);
      this.current = requests[0]?.id ?? "";
      this.#draw(this.current !== "" && (held || this.page.mayTakeFocus()));
      if (held && !this.current) this.page.leave();
    } else this.#count();
  }

  /** Whether the key was meant for the card. @param {KeyboardEvent} event */
  key(event) {
    const known = this.cards.get(this.current);
    if (!known || performance.now() - this.shownAt < GRACE) return false;
    return known.card.key(event);
  }

  focus() {
    this.cards.get(this.current)?.element.focus({ preventScroll: true });
  }

  /** @param {number} now */
  tick(now) {
    const request = this.requests.find((it) => it.id === this.current);
    const known = this.cards.get(this.current);
    if (!request || !known) return;
    const left = request.expires ? request.expires - now : undefined;
    known.age.textContent = left !== undefined ? `expires in ${about(Math.max(0, left))}` : request.at ? `waits for ${about(now - request.at)}` : "";
    known.age.classList.toggle("soon", left !== undefined && left < 60_000);
  }

  /** @param {boolean} focus */
  #draw(focus) {
    const request = this.requests.find((it) => it.id === this.current);
    if (!request) {
      fill(this.place);
      return;
    }
    let known = this.cards.get(request.id);
    if (!known) {
      known = this.#make(request);
      this.cards.set(request.id, known);
    }
    fill(this.place, known.element);
    this.shownAt = performance.now();
    this.#count();
    this.tick(Date.now());
    if (focus) this.focus();
  }

  #count() {
    const known = this.cards.get(this.current);
    if (!known) return;
    const here = this.requests.findIndex((it) => it.id === this.current);
    const go = (/** @type {number} */ step) => () => {
      this.current = this.requests[(here + step + this.requests.length) % this.requests.length].id;
      this.#draw(true);
    };
    fill(known.count, ...(this.requests.length > 1
      ? [iconButton("The one before", "M12 5l-5 5 5 5", go(-1)), `${here + 1} of ${this.requests.length}`, iconButton("The next", "M8 5l5 5-5 5", go(1))]
      : []));
  }

  /** @param {Request} request */
  #make(request) {
    const answer = (/** @type {Answer} */ answer) => this.page.answer(request, answer);
    const make = { permission: permissionCard, answers: questionCard, plan_approval: planCard }[request.wants] ?? permissionCard;
    const card = make(request, answer, () => this.page.leave());
    const diffs = /** @type {NodeListOf<HTMLElement>} */ (card.body.querySelectorAll(".diff"));
    if (diffs.length) void import("./diffs.js").then((it) => diffs.forEach((diff) => it.addDiffTools(diff, (line) => this.page.comment({ path: request.target ?? "", ...line }))));
    const age = h("span", { class: "age" });
    const count = h("span", { class: "count" });
    const title = `request-${request.id}`;
    const element = h("section", { class: "request", tabindex: "-1", role: "group", "aria-labelledby": title, "data-request": request.id, "data-wants": request.wants },
      h("header", { class: "request-head" }, h("span", { class: "lamp needs" }), h("h2", { id: title }, card.title), age, count),
      card.body);
    return { element, card, age, count };
  }
}
