/**
 * Where the reader is: at the end, following what comes, or elsewhere, and then nothing may move
 * what they read.
 *
 * The browser's own scroll anchoring is off, because not every browser has it: whatever changes the
 * page goes through `keeping`, which puts the reader back where they were.
 *
 * @module
 */

/** So near the end still counts as there. */
const NEAR = 60;

export class Scroll {
  /**
   * @param {HTMLElement} log
   * @param {() => void} changed whether the end is followed is another now
   * @param {() => void} top the beginning of what is loaded comes into sight
   */
  constructor(log, changed, top) {
    this.log = log;
    this.changed = changed;
    this.following = true;
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

  /** Also what is docked below the log changes where its end is seen.
   * @param {Element} element */
  mind(element) {
    this.sizes.observe(element);
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    this.sizes.disconnect();
  }

  atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.#page();
    return scrollHeight - clientHeight - scrollTop < NEAR;
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
   * Changes the log and leaves the reader where they were.
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
    const anchor = this.#anchor();
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    if (!anchor?.isConnected) return;
    const page = this.#page();
    page.scrollTop += anchor.getBoundingClientRect().top - before;
    this.last = page.scrollTop;
  }

  /**
   * Sees where the reader went. Their scrolling is told of a frame later, and words may come in
   * between, so whoever is about to move the page looks first.
   */
  #notice() {
    const { scrollTop } = this.#page();
    const up = scrollTop < this.last - 1;
    this.last = scrollTop;
    // Growth below the reader also leaves them short of the end; only their own way up ends the following.
    if (up && !this.atEnd()) this.#become(false);
    else if (this.atEnd()) this.#become(true);
  }

  /** The first thing in sight that will still be there. */
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
