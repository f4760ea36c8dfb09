/**
 * The scroll position: at the end, following new items, or elsewhere, and then nothing may move what
 * the user reads.
 *
 * The browser's own scroll anchoring is off, because not every browser has it. Whatever changes the
 * page goes through `keeping`, which restores the position.
 *
 * @module
 */

/** The distance from the end that still counts as the end. */
const NEAR_END = 60;

export class Scroll {
  /**
   * @param {HTMLElement} log
   * @param {() => void} changed called when following starts or stops
   * @param {() => void} top called near the first loaded item
   */
  constructor(log, changed, top) {
    this.log = log;
    this.changed = changed;
    this.following = true;
    /** Whether someone goes to another place, for which more is being loaded. */
    this.held = false;
    this.last = 0;
    this.onScroll = () => {
      this.#notice();
      if (this.#page().scrollTop < 900) top();
    };
    addEventListener("scroll", this.onScroll, { passive: true });
    this.sizes = new ResizeObserver(() => {
      this.#notice();
      if (this.following) this.toEnd();
    });
    this.sizes.observe(log);
  }

  /** Also observes what is below the log. @param {Element} element */
  observe(element) {
    this.sizes.observe(element);
  }

  /** Stops following the end, and keeps no position, until `release`. */
  hold() {
    this.held = true;
    this.#become(false);
  }

  release() {
    this.held = false;
    this.last = this.#page().scrollTop;
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    this.sizes.disconnect();
  }

  atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.#page();
    return scrollHeight - clientHeight - scrollTop < NEAR_END;
  }

  /** Whether there is nothing to scroll. */
  get short() {
    const { clientHeight, scrollHeight } = this.#page();
    return scrollHeight <= clientHeight + 200;
  }

  toEnd() {
    const page = this.#page();
    page.scrollTop = page.scrollHeight;
    this.last = page.scrollTop;
    this.#become(true);
  }

  /**
   * Changes the log and keeps the scroll position.
   *
   * @param {() => void} change
   */
  keeping(change) {
    this.#notice();
    if (this.following) {
      change();
      this.toEnd();
      return;
    }
    const anchor = this.held ? undefined : this.#anchor();
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    if (!anchor?.isConnected) return;
    const page = this.#page();
    page.scrollTop += anchor.getBoundingClientRect().top - before;
    this.last = page.scrollTop;
  }

  /**
   * Notices that the user scrolled. Scroll events come a frame later, so this is called before the
   * page is changed.
   */
  #notice() {
    if (this.held) return;
    const { scrollTop } = this.#page();
    const up = scrollTop < this.last - 1;
    this.last = scrollTop;
    // New items below also move the end away; only scrolling up stops following.
    if (up && !this.atEnd()) this.#become(false);
    else if (this.atEnd()) this.#become(true);
  }

  /** The first visible item. */
  #anchor() {
    for (const entry of this.log.querySelectorAll(".entry")) {
      const { bottom, height } = entry.getBoundingClientRect();
      if (height > 0 && bottom > 60) return entry;
    }
    return undefined;
  }

  /** @param {boolean} following */
  #become(following) {
    if (this.following === following) return;
    this.following = following;
    this.changed();
  }

  #page() {
    return /** @type {HTMLElement} */ (document.scrollingElement ?? document.documentElement);
  }
}
