/**
 * Marks the words that were searched for, without changing the elements that have them. A browser
 * that cannot do that marks the item alone.
 *
 * @module
 */

/** More matches than anyone looks at. */
const MAX_RANGES = 2000;
/** The highlight's name in `transcript.css`. */
const NAME = "searched";

/** What to mark in the next item that is gone to. @type {string[]} */
let wanted = [];

/** Says what to mark in the next item that is gone to. @param {string[]} words */
export function markNext(words) {
  wanted = [...new Set(words.map((it) => it.trim()).filter(Boolean))];
}

/** What to mark in an item that was gone to. */
export function takeWanted() {
  const words = wanted;
  wanted = [];
  return words;
}

/**
 * Marks words in elements, and nothing else anywhere.
 *
 * @param {Iterable<Element>} elements
 * @param {string[]} words
 */
export function mark(elements, words) {
  const { highlights } = /** @type {any} */ (CSS);
  const { Highlight } = /** @type {any} */ (window);
  highlights?.delete(NAME);
  if (!highlights) return;
  const ranges = rangesIn(elements, words);
  if (ranges.length) highlights.set(NAME, new Highlight(...ranges));
}

/** Where words are in elements. @param {Iterable<Element>} elements @param {string[]} words */
export function rangesIn(elements, words) {
  const lower = words.map((it) => it.toLowerCase()).filter(Boolean);
  /** @type {Range[]} */ const ranges = [];
  for (const element of elements) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (ranges.length >= MAX_RANGES) break;
      // What only buttons say is no part of the text.
      if (node.parentElement?.closest("button")) continue;
      findIn(/** @type {Text} */ (node), lower, ranges);
    }
  }
  return ranges;
}

/** @param {Text} node @param {string[]} words @param {Range[]} ranges */
function findIn(node, words, ranges) {
  const text = node.data.toLowerCase();
  // Some letters have another length in lower case, so that places would be wrong.
  if (text.length !== node.data.length) return;
  for (const word of words) {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
      if (ranges.length >= MAX_RANGES) return;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      ranges.push(range);
    }
  }
}
