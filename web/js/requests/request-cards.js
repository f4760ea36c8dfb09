/**
 * Open requests above the composer: one card at a time, with a count.
 *
 * A card is kept as long as its request is open, so that what the user typed or chose in it stays.
 *
 * @module
 */

import { fill, h, iconButton } from "../ui/elements.js";
import { permissionCard } from "./permission.js";
import { planCard } from "./plan.js";
import { questionCard } from "./question.js";
import { unknownCard } from "./unknown.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { roughDuration } from "../ui/format.js";

await loadStylesheet("/css/requests.css");

/** @typedef {import("./card.js").Request} Request */
/** @typedef {import("./card.js").Card} Card */
/** @typedef {import("./card.js").AnswerRequest} AnswerRequest */

/** Keys are ignored when a card has just appeared: they were meant for something else. */
const GRACE_MS = 350;

export class RequestCards {
  /**
   * @param {HTMLElement} place
   * @param {{ answer: (request: Request, answer: AnswerRequest) => Promise<void>, leave: () => void, mayTakeFocus: () => boolean, agent: () => string, comment: (line: import("../conversation/file-changes.js").DiffLine) => void }} page
   */
  constructor(place, page) {
    this.place = place;
    this.page = page;
    /** @type {Request[]} */ this.requests = [];
    /** @type {Map<string, { element: HTMLElement, card: Card, age: HTMLElement, count: HTMLElement }>} */ this.cards =
      new Map();
    this.current = "";
    this.shownAt = 0;
  }

  /** @param {Request[]} requests */
  show(requests) {
    this.requests = requests;
    const ids = new Set(requests.map((it) => it.id));
    for (const id of [...this.cards.keys()]) if (!ids.has(id)) this.cards.delete(id);
    if (!ids.has(this.current)) {
      const hadFocus = this.place.contains(document.activeElement);
      this.current = requests[0]?.id ?? "";
      this.#draw(this.current !== "" && (hadFocus || this.page.mayTakeFocus()));
      if (hadFocus && !this.current) this.page.leave();
    } else this.#showCount();
  }

  /** Handles a key for the current card. @param {KeyboardEvent} event */
  key(event) {
    const known = this.cards.get(this.current);
    if (!known || performance.now() - this.shownAt < GRACE_MS) return false;
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
    known.age.textContent =
      left !== undefined
        ? `expires in ${roughDuration(Math.max(0, left))}`
        : request.at
          ? `waiting for ${roughDuration(now - request.at)}`
          : "";
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
      known = this.#create(request);
      this.cards.set(request.id, known);
    }
    fill(this.place, known.element);
    this.shownAt = performance.now();
    this.#showCount();
    this.tick(Date.now());
    if (focus) this.focus();
  }

  #showCount() {
    const known = this.cards.get(this.current);
    if (!known) return;
    const here = this.requests.findIndex((it) => it.id === this.current);
    const go = (/** @type {number} */ step) => () => {
      this.current = this.requests[(here + step + this.requests.length) % this.requests.length].id;
      this.#draw(true);
    };
    fill(
      known.count,
      ...(this.requests.length > 1
        ? [
            iconButton("Previous request", "M12 5l-5 5 5 5", go(-1)),
            `${here + 1} of ${this.requests.length}`,
            iconButton("Next request", "M8 5l5 5-5 5", go(1)),
          ]
        : []),
    );
  }

  /** @param {Request} request */
  #create(request) {
    const answer = (/** @type {AnswerRequest} */ answer) => this.page.answer(request, answer);
    // A plan with choices of the agent's own is approved with one of them.
    const kind = request.kind === "plan" && request.choices.length ? "permission" : request.kind;
    const createCard =
      {
        permission: permissionCard,
        question: questionCard,
        plan: planCard,
        unknown: unknownCard,
      }[kind] ?? unknownCard;
    const card = createCard(request, answer, () => this.page.leave(), this.page.agent());
    const diffs = /** @type {NodeListOf<HTMLElement>} */ (card.body.querySelectorAll(".diff"));
    if (diffs.length)
      void import("../conversation/diffs.js").then((it) =>
        diffs.forEach((diff) =>
          it.addDiffTools(diff, (line) =>
            this.page.comment({ path: request.target ?? "", ...line }),
          ),
        ),
      );
    const age = h("span", { class: "age" });
    const count = h("span", { class: "count" });
    const title = `request-${request.id}`;
    const element = h(
      "section",
      {
        class: "request",
        tabindex: "-1",
        role: "group",
        "aria-labelledby": title,
        "data-request": request.id,
        "data-kind": request.kind,
      },
      h(
        "header",
        { class: "request-head" },
        h("span", { class: "status-dot needs" }),
        h("h2", { id: title, title: card.title }, card.title),
        age,
        count,
      ),
      card.body,
    );
    return { element, card, age, count };
  }
}

/** The cards of a session's page. @param {import("../session-page.js").SessionPage} page */
export function requestCards(page) {
  return new RequestCards(page.requestsPlace, {
    answer: (request, answer) => page.actions.answer(request, answer),
    leave: () => page.composer.focus(),
    comment: (line) => void page.comment(line),
    agent: () => page.agentName,
    mayTakeFocus: () =>
      page.composer.isIdle &&
      !document.querySelector("dialog[open]") &&
      !page.searchPlace.contains(document.activeElement),
  });
}
