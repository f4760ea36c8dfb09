/**
 * Finding words in the conversation, in what is loaded of it.
 *
 * @module
 */

import { h, iconButton, PATHS } from "./elements.js";

export class Find {
  /** @param {HTMLElement} log */
  constructor(log) {
    this.log = log;
    /** @type {HTMLElement[]} */ this.hits = [];
    this.here = -1;
    this.field = h("input", { type: "search", placeholder: "Find in this conversation", "aria-label": "Find in this conversation" });
    this.told = h("output", {});
    this.element = h("div", { class: "find", role: "search", hidden: true }, this.field, this.told,
      iconButton("The one before", PATHS.up, () => this.#go(-1)), iconButton("The next", PATHS.down, () => this.#go(1)), iconButton("Close", PATHS.close, () => this.close()));
    this.field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#search(), 120);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#go(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  open() {
    this.element.hidden = false;
    this.field.focus();
    this.field.select();
  }

  close() {
    this.element.hidden = true;
    this.field.value = "";
    this.#search();
    this.log.focus({ preventScroll: true });
  }

  #search() {
    const words = this.field.value.trim().toLowerCase();
    this.hits[this.here]?.classList.remove("found");
    this.hits = [];
    this.here = -1;
    this.told.textContent = "";
    if (words.length < 2) return;
    for (const entry of /** @type {NodeListOf<HTMLElement>} */ (this.log.querySelectorAll(".entry:not([hidden])"))) {
      const inner = entry.querySelector(".entry");
      if (!inner && entry.textContent?.toLowerCase().includes(words)) this.hits.push(entry);
    }
    if (this.hits.length) this.#go(-1);
    else this.told.textContent = "Not in what is loaded";
  }

  /** @param {number} step */
  #go(step) {
    if (!this.hits.length) return;
    this.hits[this.here]?.classList.remove("found");
    this.here = this.here < 0 ? this.hits.length - 1 : (this.here + step + this.hits.length) % this.hits.length;
    const hit = this.hits[this.here];
    hit.classList.remove("folded");
    for (let up = /** @type {HTMLElement | null} */ (hit); up && up !== this.log; up = up.parentElement) if (up instanceof HTMLDetailsElement) up.open = true;
    const own = hit.querySelector("details");
    if (own) own.open = true;
    hit.classList.add("found");
    hit.scrollIntoView({ block: "center" });
    this.told.textContent = `${this.here + 1} of ${this.hits.length}`;
  }
}
