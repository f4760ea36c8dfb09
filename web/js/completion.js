/**
 * The menus of the composer: `/` offers the agent's commands, `@` the project's files.
 *
 * @module
 */

import { fill, h } from "./elements.js";

/** @typedef {{ value: string, about?: string }} Offer */

export class Completion {
  /**
   * @param {HTMLTextAreaElement} area
   * @param {{ commands: () => Promise<{ name: string, description?: string }[]>, files: (like: string) => Promise<string[]> }} source
   */
  constructor(area, source) {
    this.area = area;
    this.source = source;
    /** @type {Offer[]} */ this.offers = [];
    this.chosen = 0;
    this.asked = 0;
    this.element = h("div", { class: "menu", role: "listbox", id: "completion", "aria-label": "Suggestions", hidden: true });
    area.addEventListener("input", () => void this.look());
    area.addEventListener("click", () => void this.look());
    // A press on an offer takes the focus first; the menu must live that long.
    area.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  close() {
    this.asked += 1;
    this.offers = [];
    this.#draw();
  }

  /** Whether the key was meant for the menu. @param {KeyboardEvent} event */
  key(event) {
    if (!this.offers.length) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.chosen = (this.chosen + step + this.offers.length) % this.offers.length;
      this.#draw();
    } else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && !event.ctrlKey && !event.metaKey) this.#take(this.offers[this.chosen]);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  /** The word the cursor stands behind, if it begins with `/` or `@`. */
  #word() {
    const before = this.area.value.slice(0, this.area.selectionStart);
    return /(?:^|\s)([/@])(\S*)$/.exec(before);
  }

  /** Offers what fits where the cursor stands. */
  async look() {
    const word = this.#word();
    const ticket = (this.asked += 1);
    if (!word) {
      this.close();
      return;
    }
    const [, sign, like] = word;
    const offers = await (sign === "/" ? this.#commands(like) : this.#files(like)).catch(() => []);
    if (ticket !== this.asked) return;
    this.offers = offers;
    this.chosen = 0;
    this.#draw();
  }

  /** @param {string} like @returns {Promise<Offer[]>} */
  async #commands(like) {
    const all = await this.source.commands();
    const words = like.toLowerCase();
    const rank = (/** @type {string} */ name) => (name.toLowerCase().startsWith(words) ? 0 : 1);
    return all.filter((it) => it.name.toLowerCase().includes(words)).sort((a, b) => rank(a.name) - rank(b.name)).slice(0, 30)
      .map((it) => ({ value: `/${it.name}`, about: it.description }));
  }

  /** @param {string} like @returns {Promise<Offer[]>} */
  async #files(like) {
    return (await this.source.files(like)).slice(0, 30).map((path) => ({ value: `@${path}` }));
  }

  /** @param {Offer} offer */
  #take(offer) {
    const word = this.#word();
    if (!word) return;
    const end = this.area.selectionStart;
    const start = end - word[1].length - word[2].length;
    this.area.setRangeText(`${offer.value} `, start, end, "end");
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
    this.close();
    this.area.focus();
  }

  #draw() {
    fill(this.element, ...this.offers.map((offer, n) => h("div", { role: "option", id: `offer-${n}`, "aria-selected": String(n === this.chosen), onmousedown: (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#take(offer);
    } }, h("b", {}, offer.value), offer.about && h("small", {}, offer.about))));
    this.element.hidden = !this.offers.length;
    for (const [name, value] of [["aria-controls", "completion"], ["aria-activedescendant", `offer-${this.chosen}`]]) {
      if (this.offers.length) this.area.setAttribute(name, value);
      else this.area.removeAttribute(name);
    }
    this.element.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }
}
