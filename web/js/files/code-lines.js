/**
 * The lines of a text with their numbers. Of a long text only the lines in sight exist, and the rest
 * is loaded as someone scrolls.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { htmlNodes } from "../ui/trusted-html.js";
import { VirtualList } from "../ui/virtual-list.js";

/** @typedef {{ key: string, height: number, number: number, html: string }} CodeRow */

/** A text with more lines shows only those in sight. A shorter one can be searched and copied as a whole. */
const MAX_WHOLE = 2000;

/** The height of a line, in rem. It is the one of `.code-line`. */
const LINE_HEIGHT = 1.3125;

/** How near the end is when more is loaded, in pixels. */
const NEAR = 3000;

export class CodeLines {
  /** @param {{ more: (offset: number) => Promise<import("../gateway.js").FileView>, mark: (line: number) => void }} actions */
  constructor(actions) {
    this.actions = actions;
    /** @type {CodeRow[]} */ this.rows = [];
    /** @type {number | null | undefined} */ this.next = undefined;
    this.marked = 0;
    this.loading = false;
    this.list = h("div", { class: "code-list" });
    this.element = h(
      "pre",
      { class: "code-lines", tabindex: "0", "aria-label": "Content" },
      this.list,
    );
    /** @type {VirtualList<CodeRow> | undefined} */ this.virtual = undefined;
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.list.addEventListener("click", (event) => {
      const number = /** @type {HTMLElement} */ (event.target).closest("i")?.textContent;
      if (number) this.actions.mark(Number(number));
    });
  }

  /** @param {string[]} lines @param {number | null | undefined} next where the rest begins */
  show(lines, next) {
    this.rows = [];
    this.next = next;
    this.#append(lines);
    this.list.classList.toggle("long", Boolean(this.virtual));
    if (this.virtual) this.virtual.show(this.rows);
    else this.list.replaceChildren(...this.rows.map((it) => this.#draw(it)));
    this.#size();
  }

  /** Marks a line and scrolls to it, if there is one. @param {number} line */
  async goTo(line) {
    this.marked = line;
    while (line > this.rows.length && this.next) await this.#load();
    const index = Math.min(line, this.rows.length) - 1;
    if (this.virtual) {
      this.virtual.show(this.rows.map((it) => ({ ...it })));
      this.virtual.reveal(index);
    } else
      for (const [n, element] of [...this.list.children].entries())
        element.classList.toggle("marked", n + 1 === line);
    if (index < 0) return;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.element.scrollTop = (index + 0.5) * LINE_HEIGHT * rem - this.element.clientHeight / 2;
  }

  /** @param {string[]} lines */
  #append(lines) {
    const first = this.rows.length + 1;
    for (const [n, html] of lines.entries())
      this.rows.push({ key: String(first + n), height: LINE_HEIGHT, number: first + n, html });
    if (!this.virtual && (this.next || this.rows.length > MAX_WHOLE)) {
      this.list.replaceChildren();
      this.virtual = new VirtualList(this.list, this.element, (row) => this.#draw(row));
    }
  }

  async #load() {
    if (this.loading || !this.next) return;
    this.loading = true;
    try {
      const part = await this.actions.more(this.next);
      this.next = part.next;
      this.#append(part.lines);
      this.virtual?.show(this.rows);
      this.#size();
    } catch {
      // The file is gone or shorter than before; what is shown stays.
      this.next = null;
    } finally {
      this.loading = false;
    }
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    if (scrollTop + clientHeight > scrollHeight - NEAR) void this.#load();
  }

  /** Numbers have the width of the last one. */
  #size() {
    this.element.style.setProperty("--digits", String(String(this.rows.length).length));
  }

  /** @param {CodeRow} row */
  #draw(row) {
    return h(
      "div",
      { class: `code-line${row.number === this.marked ? " marked" : ""}` },
      h("i", {}, row.number),
      codeElement(row.html),
    );
  }
}

/** @param {string} html */
function codeElement(html) {
  const code = h("code", {});
  code.append(htmlNodes(html));
  return code;
}
