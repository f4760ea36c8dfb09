/**
 * Brings an item of the conversation into sight, wherever it is.
 *
 * @module
 */

import { comparePositions } from "./conversation.js";
import { parsePosition } from "./older-items.js";
import { mark, rangesIn, takeWanted } from "./highlight.js";
import { toast } from "../ui/toast.js";

/** How long an item that someone went to stays marked, in milliseconds. */
const MARKED = 4000;

/** The least distance of an item from what covers the conversation, in pixels. */
const MARGIN = 12;

/**
 * Scrolls to an item, or to words in it, and opens everything it is in. It is not covered by the bar above
 * or by what is docked below.
 *
 * @param {HTMLElement} entry
 * @param {HTMLElement} log
 * @param {string[]} [words]
 */
export function reveal(entry, log, words = []) {
  for (
    let up = /** @type {HTMLElement | null} */ (entry);
    up && up !== log;
    up = up.parentElement
  ) {
    up.classList.remove("folded");
    if (up instanceof HTMLDetailsElement) up.open = true;
  }
  const own = entry.querySelector("details");
  if (own) own.open = true;
  entry.classList.add("found");
  entry.scrollIntoView({ block: "center" });
  const page = log.closest(".page");
  const top = (page?.querySelector(".top")?.getBoundingClientRect().bottom ?? 0) + MARGIN;
  const dock = page?.querySelector(".dock, .continue")?.getBoundingClientRect().top ?? innerHeight;
  const bottom = Math.max(top, dock - MARGIN);
  const whole = entry.getBoundingClientRect();
  // Of a long item the words matter.
  const match = whole.height > bottom - top ? rangesIn([entry], words).find(isShown) : undefined;
  const box = match?.getBoundingClientRect() ?? whole;
  const space = bottom - top - box.height;
  scrollBy(0, box.top - top - Math.max(0, space / 2));
}

/** @param {Range} range */
function isShown(range) {
  return range.getBoundingClientRect().height > 0;
}

/**
 * Goes to a position of a conversation: loads what is missing, and marks the item there for a moment.
 *
 * @param {import("./older-items.js").ConversationPage & { older: () => Promise<import("./older-items.js").OlderItems>, log: HTMLElement }} page
 * @param {string} position
 */
export async function goToPosition(page, position) {
  const wanted = parsePosition(position);
  if (!wanted) return;
  page.scroll.hold();
  try {
    if (!(await (await page.older()).loadFrom(wanted))) return;
    const entry = entryAt(page.transcript, wanted);
    if (!entry) {
      toast("This place is no longer part of the conversation.");
      return;
    }
    page.log.querySelectorAll(".entry.found").forEach((it) => it.classList.remove("found"));
    const words = takeWanted();
    reveal(entry, page.log, words);
    mark([entry], words);
    setTimeout(() => entry.classList.remove("found"), MARKED);
  } finally {
    page.scroll.release();
  }
}

/**
 * The last item that is shown and not after a position.
 *
 * @param {import("./transcript.js").Transcript} transcript
 * @param {import("./older-items.js").Position} position
 */
function entryAt(transcript, position) {
  /** @type {import("./item-view.js").ItemView | undefined} */ let found;
  for (const view of transcript.entries.values()) {
    if (view.element.hidden || comparePositions(view.item.position, position) > 0) continue;
    if (!found || comparePositions(view.item.position, found.item.position) > 0) found = view;
  }
  return found?.element;
}
