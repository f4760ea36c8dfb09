/**
 * Whether a text could be read before it is agreed to.
 *
 * @module
 */

import { h } from "./elements.js";

/**
 * Whether the whole content of a scrollable element could be seen: it fits, the user scrolled to its
 * end, or pressed *Show all*.
 */
export class Visibility {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** Not before it was measured. */
    this.complete = false;
    this.seen = false;
    this.changed = () => {};
    const show = () => this.showAll();
    this.button = h(
      "button",
      { type: "button", class: "button show-all", hidden: true, onclick: show },
      "Show all",
    );
    element.addEventListener("scroll", () => this.#check(), { passive: true });
    const observer = new ResizeObserver(() => this.#measure());
    observer.observe(element);
  }

  showAll() {
    this.element.classList.add("expanded");
    this.#setComplete(true);
    this.element.focus({ preventScroll: true });
  }

  /** The content does not change, so it is measured until it was completely visible once. */
  #measure() {
    if (this.element.clientHeight === 0 || this.seen) return;
    const fits = this.element.scrollHeight <= this.element.clientHeight + 2;
    this.#setComplete(fits);
  }

  #check() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    if (scrollTop + clientHeight >= scrollHeight - 4) this.#setComplete(true);
  }

  /** @param {boolean} complete */
  #setComplete(complete) {
    this.seen = this.seen || complete;
    this.complete = complete;
    this.button.hidden = complete;
    this.changed();
  }
}
