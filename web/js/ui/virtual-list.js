/**
 * A list of any length of which only the rows in sight exist.
 *
 * @module
 */

/**
 * A row. One with the same key and another object is drawn again.
 *
 * @typedef {{ key: string, height: number }} VirtualRow `height` in rem
 */

/** How far outside of the window rows exist, in pixels. */
const MARGIN = 300;

/** @template {VirtualRow} R */
export class VirtualList {
  /**
   * @param {HTMLElement} element the list, in `scroller`
   * @param {HTMLElement} scroller
   * @param {(row: R, index: number) => HTMLElement} draw
   */
  constructor(element, scroller, draw) {
    this.element = element;
    this.scroller = scroller;
    this.draw = draw;
    /** @type {R[]} */ this.rows = [];
    /** Where each row begins, and where the last one ends. */
    this.tops = [0];
    /** @type {Map<string, { row: R, element: HTMLElement }>} */ this.drawn = new Map();
    element.classList.add("virtual");
    scroller.addEventListener("scroll", () => this.#render(), { passive: true });
    new ResizeObserver(() => this.#render()).observe(scroller);
  }

  /** @param {R[]} rows */
  show(rows) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.rows = rows;
    this.tops = [0];
    for (const row of rows) this.tops.push(this.tops[this.tops.length - 1] + row.height * rem);
    this.element.style.height = `${this.tops[rows.length]}px`;
    this.#render();
  }

  /** The index of the row that has the focus, or -1. */
  get focused() {
    for (const { row, element } of this.drawn.values())
      if (element.contains(document.activeElement)) return this.rows.indexOf(row);
    return -1;
  }

  /** The element of a row, which is scrolled into sight. @param {number} index */
  reveal(index) {
    if (!this.rows[index]) return undefined;
    const { scroller } = this;
    const top = this.#offset() + this.tops[index];
    const bottom = this.#offset() + this.tops[index + 1];
    if (top < 0) scroller.scrollTop += top;
    else if (bottom > scroller.clientHeight) scroller.scrollTop += bottom - scroller.clientHeight;
    this.#render();
    return this.drawn.get(this.rows[index].key)?.element;
  }

  /** Moves the focus to a row. @param {number} index */
  focus(index) {
    focusable(this.reveal(index))?.focus({ preventScroll: true });
  }

  /** Where the list begins, below the upper edge of what is in sight. */
  #offset() {
    return this.element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
  }

  #render() {
    const height = this.scroller.clientHeight;
    if (!height || !this.element.isConnected) return;
    const offset = this.#offset();
    const focused = this.focused;
    /** @type {number[]} */ const indexes = [];
    for (let n = this.#indexAt(-offset - MARGIN); n < this.rows.length; n += 1) {
      if (this.tops[n] + offset > height + MARGIN) break;
      indexes.push(n);
    }
    // A row that has the focus stays, or the keyboard would begin anew.
    if (focused >= 0 && !indexes.includes(focused)) indexes.push(focused);
    indexes.sort((a, b) => a - b);
    const keys = new Set(indexes.map((it) => this.rows[it].key));
    for (const [key, { element }] of this.drawn)
      if (!keys.has(key)) {
        element.remove();
        this.drawn.delete(key);
      }
    /** @type {Element | null} */ let before = null;
    for (const index of indexes) {
      const element = this.#element(index);
      /** @type {Element | null} */
      const next = before ? before.nextElementSibling : this.element.firstElementChild;
      if (next !== element) this.element.insertBefore(element, next);
      before = element;
    }
  }

  /** @param {number} index */
  #element(index) {
    const row = this.rows[index];
    const known = this.drawn.get(row.key);
    const element = known?.row === row ? known.element : this.draw(row, index);
    element.style.top = `${this.tops[index]}px`;
    element.style.height = `${this.tops[index + 1] - this.tops[index]}px`;
    if (known && known.element !== element) {
      const hadFocus = known.element.contains(document.activeElement);
      known.element.replaceWith(element);
      if (hadFocus) focusable(element)?.focus({ preventScroll: true });
    }
    this.drawn.set(row.key, { row, element });
    return element;
  }

  /** The row at a distance from the beginning. @param {number} distance */
  #indexAt(distance) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= distance) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** @param {HTMLElement | undefined} element */
function focusable(element) {
  const selector = "a, button";
  return element?.matches(selector)
    ? element
    : /** @type {HTMLElement | null} */ (element?.querySelector(selector) ?? null);
}
