/**
 * Search in the loaded part of the conversation.
 *
 * @module
 */

import { h, iconButton, PATHS } from "../ui/elements.js";
import { mark } from "./highlight.js";
import { reveal } from "./reveal.js";

export class ConversationSearch {
  /** @param {HTMLElement} log */
  constructor(log) {
    this.log = log;
    /** @type {HTMLElement[]} */ this.matches = [];
    this.current = -1;
    this.field = h("input", {
      type: "search",
      placeholder: "Find in this conversation",
      "aria-label": "Find in this conversation",
    });
    this.result = h("output", {});
    this.element = h(
      "div",
      { class: "search", role: "search", hidden: true },
      this.field,
      this.result,
      iconButton("Previous match", PATHS.up, () => this.#go(-1)),
      iconButton("Next match", PATHS.down, () => this.#go(1)),
      iconButton("Close", PATHS.close, () => this.close()),
    );
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
    const query = this.field.value.trim().toLowerCase();
    this.matches[this.current]?.classList.remove("found");
    this.matches = [];
    this.current = -1;
    this.result.textContent = "";
    mark([], []);
    if (query.length < 2) return;
    for (const entry of /** @type {NodeListOf<HTMLElement>} */ (
      this.log.querySelectorAll(".entry:not([hidden])")
    )) {
      const inner = entry.querySelector(".entry");
      if (!inner && entry.textContent?.toLowerCase().includes(query)) this.matches.push(entry);
    }
    mark(this.matches, [query]);
    if (this.matches.length) this.#go(-1);
    else this.result.textContent = "No match in the loaded part";
  }

  /** @param {number} step */
  #go(step) {
    if (!this.matches.length) return;
    this.matches[this.current]?.classList.remove("found");
    this.current =
      this.current < 0
        ? this.matches.length - 1
        : (this.current + step + this.matches.length) % this.matches.length;
    const match = this.matches[this.current];
    reveal(match, this.log, [this.field.value.trim()]);
    this.result.textContent = `${this.current + 1} of ${this.matches.length}`;
  }
}
