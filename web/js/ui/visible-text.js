/**
 * Text of others as a person must see it: nothing in it can hide, reorder or push away the rest.
 *
 * @module
 */

/** Controls except line breaks and tabs, characters without width, and those that change the direction. */
const HIDDEN =
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

/** More empty lines or spaces than these are counted instead of shown. */
const MAX_EMPTY_LINES = 3;
const SPACES = /[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]{60,}/g;

/**
 * A text in which hidden characters are replaced by their codes, and long runs of empty lines and
 * spaces by their number.
 *
 * @param {string} text
 */
export function visibleText(text) {
  /** @type {string[]} */ const lines = [];
  let empty = 0;
  const endRun = () => {
    if (empty > MAX_EMPTY_LINES) lines.push(`⟨${empty} empty lines⟩`);
    else lines.push(...Array(empty).fill(""));
    empty = 0;
  };
  for (const line of text.replaceAll("\r\n", "\n").split("\n")) {
    if (line.trim() === "") {
      empty += 1;
      continue;
    }
    endRun();
    lines.push(visibleLine(line));
  }
  endRun();
  return lines.join("\n");
}

/** The same for a text that is shown in one line. @param {string} text */
export function visibleLine(text) {
  return text
    .replace(HIDDEN, (it) => `\\u{${it.codePointAt(0)?.toString(16)}}`)
    .replace(/[\r\n]/g, (it) => (it === "\n" ? "\\n" : "\\r"))
    .replace(SPACES, (it) => `⟨${it.length} spaces⟩`);
}
