/**
 * Draws the lines of a terminal: those of the screen, and above them the scrollback, of which only
 * what is in sight is requested and drawn.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";

/** @typedef {import("../gateway.js").TerminalLine} Line */
/** @typedef {import("../gateway.js").TerminalScreen} ScreenState */
/** @typedef {import("../gateway.js").TerminalFrame} TerminalFrame */

/** How many lines of the scrollback are requested at a time. */
const PAGE = 200;
/** How many lines outside of the window are drawn. */
const MARGIN = 15;
/** How many lines are remembered that are not on the screen. */
const MAX_KNOWN = 2000;

export class TerminalScreen {
  /** @param {{ request: (from: number, count: number) => void, resized: (columns: number, rows: number) => void }} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {ScreenState | undefined} */ this.state = undefined;
    /** Lines by number. @type {Map<number, Line>} */ this.lines = new Map();
    /** What is drawn. @type {Map<number, { element: HTMLElement, line: Line }>} */
    this.drawn = new Map();
    /** The page that was requested last. */
    this.requested = -1;
    this.following = true;
    this.size = { columns: 0, rows: 0 };
    this.rows = h("div", {
      class: "terminal-rows",
      role: "group",
      "aria-label": "Screen",
      "aria-live": "off",
    });
    this.cursor = h("div", { class: "terminal-cursor", hidden: true });
    this.place = h("div", { class: "terminal-lines" }, this.rows, this.cursor);
    this.ruler = h("span", { class: "terminal-line", "aria-hidden": "true" }, "x".repeat(100));
    this.element = h("div", { class: "terminal-scroller", tabindex: "-1" }, this.place);
    this.end = h(
      "button",
      { type: "button", class: "button terminal-end", hidden: true, onclick: () => this.toEnd() },
      "To the end",
    );
    this.element.addEventListener("scroll", () => this.#scrolled());
    this.element.addEventListener("copy", (event) => this.#copy(event));
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  /** The height of a line and the width of a column, in pixels. */
  get cell() {
    const style = getComputedStyle(this.element);
    return { width: this.width ?? 8, height: parseFloat(style.getPropertyValue("--row")) || 18 };
  }

  /** Measures how many columns and rows fit. */
  measure() {
    if (!this.element.clientWidth) return;
    this.place.append(this.ruler);
    this.width = this.ruler.getBoundingClientRect().width / 100;
    this.ruler.remove();
    this.element.style.setProperty("--cell", `${this.width}px`);
    const { width, height } = this.cell;
    const columns = Math.max(2, Math.floor((this.element.clientWidth - 16) / width));
    const rows = Math.max(2, Math.floor((this.element.clientHeight - 12) / height));
    if (columns !== this.size.columns || rows !== this.size.rows) {
      this.size = { columns, rows };
      this.hooks.resized(columns, rows);
    }
    this.#resize(this.state);
    this.draw();
  }

  /** @param {TerminalFrame} frame */
  apply(frame) {
    if (frame.frame === "screen" || frame.frame === "rows") {
      const before = this.state;
      const { screen } = frame;
      if (frame.frame === "screen") {
        this.lines.clear();
        this.requested = -1;
        if (before?.alternate !== screen.alternate) this.following = true;
      } else if (before && screen.top > before.top + before.rows)
        for (const number of this.lines.keys()) if (number >= before.top) this.lines.delete(number);
      this.state = screen;
      this.#add(frame.lines);
      this.#resize(before);
    } else if (frame.frame === "scrollback") {
      this.requested = -1;
      this.#add(frame.lines);
    } else return;
    this.draw();
  }

  /** @param {Line[]} lines */
  #add(lines) {
    for (const line of lines) this.lines.set(line.number, line);
    const { state } = this;
    if (!state) return;
    for (const number of this.lines.keys()) {
      if (number < state.oldest || number >= state.top + state.rows) this.lines.delete(number);
      else if (this.lines.size > MAX_KNOWN && number < state.top && !this.drawn.has(number))
        this.lines.delete(number);
    }
  }

  /** Gives the lines their height, and keeps those that are read where they are. @param {ScreenState | undefined} before */
  #resize(before) {
    const { state } = this;
    if (!state) return;
    const { width, height } = this.cell;
    this.place.style.height = `${(state.top - state.oldest + state.rows) * height}px`;
    const wide = state.columns > this.size.columns;
    this.element.classList.toggle("wide", wide);
    this.place.style.width = wide ? `${state.columns * width}px` : "";
    if (this.following) this.toEnd();
    else if (before && state.oldest > before.oldest)
      this.element.scrollTop -= (state.oldest - before.oldest) * height;
  }

  toEnd() {
    this.following = true;
    this.end.hidden = true;
    this.element.scrollTop = this.#endPosition();
  }

  /** Where the end is shown. A screen that is higher than the window is shown where the cursor is. */
  #endPosition() {
    const { scrollHeight, clientHeight } = this.element;
    const last = scrollHeight - clientHeight;
    const { state } = this;
    if (!state?.cursor) return last;
    const { height } = this.cell;
    const top = (state.top - state.oldest) * height;
    return Math.min(last, Math.max(top, top + (state.cursor.row + 2) * height - clientHeight));
  }

  /** Scrolls by pages. @param {number} pages */
  scrollPages(pages) {
    this.element.scrollBy(0, pages * (this.element.clientHeight - this.cell.height));
  }

  #scrolled() {
    this.following = this.element.scrollTop >= this.#endPosition() - this.cell.height;
    this.end.hidden = this.following;
    this.draw();
  }

  /** Draws the lines in sight, and requests those that are missing. */
  draw() {
    const { state } = this;
    if (!state) return;
    const { height } = this.cell;
    const first = Math.floor(this.element.scrollTop / height) - MARGIN;
    const count = Math.ceil(this.element.clientHeight / height) + 2 * MARGIN;
    const from = Math.max(state.oldest, state.oldest + first);
    const to = Math.min(state.top + state.rows, state.oldest + first + count);
    for (const [number, { element }] of this.drawn)
      if (number < from || number >= to || !this.lines.has(number)) {
        element.remove();
        this.drawn.delete(number);
      }
    let missing = -1;
    let next = this.rows.firstChild;
    for (let number = from; number < to; number += 1) {
      const line = this.lines.get(number);
      if (!line) {
        if (number < state.top) missing = number;
        continue;
      }
      let drawn = this.drawn.get(number);
      if (!drawn) {
        drawn = { element: h("div", { class: "terminal-line" }), line };
        fillLine(drawn.element, line);
        this.drawn.set(number, drawn);
      } else if (drawn.line !== line) {
        fillLine(drawn.element, line);
        drawn.line = line;
      }
      const top = `${(number - state.oldest) * height}px`;
      if (drawn.element.style.top !== top) drawn.element.style.top = top;
      // In the order of the lines, so that a selection goes from one to the next.
      if (drawn.element === next) next = next.nextSibling;
      else this.rows.insertBefore(drawn.element, next);
    }
    if (missing >= 0 && this.requested < 0) {
      this.requested = Math.max(state.oldest, missing - PAGE + 1);
      this.hooks.request(this.requested, PAGE);
    }
    this.#drawCursor(state);
  }

  /** @param {ScreenState} state */
  #drawCursor({ cursor, top, oldest }) {
    this.cursor.hidden = !cursor;
    if (!cursor) return;
    const { width, height } = this.cell;
    this.cursor.className = `terminal-cursor ${cursor.shape}`;
    const [x, y] = [cursor.column * width, (top - oldest + cursor.row) * height];
    this.cursor.style.transform = `translate(${x}px, ${y}px)`;
    this.element.style.setProperty("--cursor-x", `${x}px`);
    this.element.style.setProperty("--cursor-y", `${y}px`);
  }

  /** The cell of the screen at a position in the window. @param {{ clientX: number, clientY: number }} position */
  cellAt({ clientX, clientY }) {
    const { state } = this;
    if (!state) return { column: 0, row: 0 };
    const box = this.place.getBoundingClientRect();
    const { width, height } = this.cell;
    const within = (/** @type {number} */ value, /** @type {number} */ count) =>
      Math.min(Math.max(Math.floor(value), 0), count - 1);
    return {
      column: within((clientX - box.left) / width, state.columns),
      row: within((clientY - box.top) / height - (state.top - state.oldest), state.rows),
    };
  }

  /** The selected text; empty if nothing of this terminal is selected. */
  selectedText() {
    const selection = getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount) return "";
    const range = selection.getRangeAt(0);
    if (!range.intersectsNode(this.rows)) return "";
    let text = "";
    for (const [, { element, line }] of [...this.drawn].sort(([a], [b]) => a - b)) {
      if (!range.intersectsNode(element)) continue;
      const part = range.cloneRange();
      if (!element.contains(range.startContainer)) part.setStart(element, 0);
      if (!element.contains(range.endContainer)) part.setEnd(element, element.childNodes.length);
      const words = part.toString();
      text += line.wrapped ? words : `${words.trimEnd()}\n`;
    }
    return text.replace(/\n$/, "");
  }

  /** Lines that the terminal broke are copied as one. @param {ClipboardEvent} event */
  #copy(event) {
    const text = this.selectedText();
    if (!text) return;
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
  }
}

/** @param {HTMLElement} element @param {Line} line */
function fillLine(element, line) {
  fill(element, ...line.runs.map(run));
}

/** @param {import("../gateway.js").TerminalRun} run */
function run({ text, foreground, background, attributes, cells }) {
  const plain = foreground == null && background == null && !attributes && !cells;
  if (plain) return text;
  const span = h("span", { class: attributes?.join(" ") || undefined }, text);
  if (cells) {
    span.classList.add("cells");
    span.style.width = `calc(var(--cell) * ${cells})`;
  }
  const [ink, paper] = [colour(foreground), colour(background)];
  if (typeof background === "number") {
    // A theme's colours are made to be read on its background. As a background they are toned down,
    // and the text on them is the page's.
    span.style.setProperty("--fill", `color-mix(in srgb, ${paper} 24%, var(--paper))`);
  } else if (paper) {
    span.style.setProperty("--fill", paper);
    span.style.setProperty("--under", paper);
    if (!ink) span.style.setProperty("--ink", isBright(paper) ? "#111" : "#fff");
  }
  if (ink && typeof background !== "number") span.style.setProperty("--ink", ink);
  return span;
}

/** @param {import("../gateway.js").TerminalColor | null | undefined} value */
function colour(value) {
  return typeof value === "number" ? `var(--a${value})` : value;
}

/** @param {string} value `#rrggbb` */
function isBright(value) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140;
}
