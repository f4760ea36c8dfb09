/**
 * Completion in the composer: `/` for the agent's commands, `@` for the project's files.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";

/** @typedef {{ value: string, about?: string }} Suggestion */

export class Completion {
  /**
   * @param {HTMLTextAreaElement} area
   * @param {{ commands: () => Promise<{ name: string, description?: string }[]>, files: (query: string) => Promise<string[]> }} source
   */
  constructor(area, source) {
    this.area = area;
    this.source = source;
    /** @type {Suggestion[]} */ this.suggestions = [];
    this.selected = 0;
    this.ticket = 0;
    this.element = h("div", {
      class: "menu",
      role: "listbox",
      id: "completion",
      "aria-label": "Suggestions",
      hidden: true,
    });
    area.addEventListener("input", () => void this.update());
    area.addEventListener("click", () => void this.update());
    // A click on a suggestion takes the focus first; the menu must stay open until then.
    area.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  close() {
    this.ticket += 1;
    this.suggestions = [];
    this.#draw();
  }

  /** Handles a key if the menu is open. @param {KeyboardEvent} event */
  key(event) {
    if (!this.suggestions.length) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.selected = (this.selected + step + this.suggestions.length) % this.suggestions.length;
      this.#draw();
    } else if (
      (event.key === "Enter" || event.key === "Tab") &&
      !event.shiftKey &&
      !event.ctrlKey &&
      !event.metaKey
    )
      this.#accept(this.suggestions[this.selected]);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  /** The word before the cursor, if it starts with `/` or `@`. */
  #word() {
    const before = this.area.value.slice(0, this.area.selectionStart);
    return /(?:^|\s)([/@])(\S*)$/.exec(before);
  }

  /** Shows the suggestions for the word before the cursor. */
  async update() {
    const word = this.#word();
    const ticket = (this.ticket += 1);
    if (!word) {
      this.close();
      return;
    }
    const [, sign, query] = word;
    const suggestions = await (sign === "/" ? this.#commands(query) : this.#files(query)).catch(
      () => [],
    );
    if (ticket !== this.ticket) return;
    this.suggestions = suggestions;
    this.selected = 0;
    this.#draw();
  }

  /** @param {string} query @returns {Promise<Suggestion[]>} */
  async #commands(query) {
    const all = await this.source.commands();
    const lower = query.toLowerCase();
    const rank = (/** @type {string} */ name) => (name.toLowerCase().startsWith(lower) ? 0 : 1);
    return all
      .filter((it) => it.name.toLowerCase().includes(lower))
      .sort((a, b) => rank(a.name) - rank(b.name))
      .slice(0, 30)
      .map((it) => ({ value: `/${it.name}`, about: it.description }));
  }

  /** @param {string} query @returns {Promise<Suggestion[]>} */
  async #files(query) {
    return (await this.source.files(query)).slice(0, 30).map((path) => ({ value: `@${path}` }));
  }

  /** @param {Suggestion} suggestion */
  #accept(suggestion) {
    const word = this.#word();
    if (!word) return;
    const end = this.area.selectionStart;
    const start = end - word[1].length - word[2].length;
    this.area.setRangeText(`${suggestion.value} `, start, end, "end");
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
    this.close();
    this.area.focus();
  }

  #draw() {
    fill(
      this.element,
      ...this.suggestions.map((suggestion, n) =>
        h(
          "div",
          {
            role: "option",
            id: `suggestion-${n}`,
            "aria-selected": String(n === this.selected),
            onmousedown: (/** @type {Event} */ event) => {
              event.preventDefault();
              this.#accept(suggestion);
            },
          },
          h("b", {}, suggestion.value),
          suggestion.about && h("small", {}, suggestion.about),
        ),
      ),
    );
    this.element.hidden = !this.suggestions.length;
    for (const [name, value] of [
      ["aria-controls", "completion"],
      ["aria-activedescendant", `suggestion-${this.selected}`],
    ]) {
      if (this.suggestions.length) this.area.setAttribute(name, value);
      else this.area.removeAttribute(name);
    }
    this.element.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }
}
