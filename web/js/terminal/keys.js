/**
 * What a terminal sends for a key.
 *
 * @module
 */

/** @typedef {{ key: string, ctrl: boolean, alt: boolean, shift: boolean }} Key */

/** Keys with a letter at the end of their sequence. @type {Record<string, string>} */
const LETTERS = {
  ArrowUp: "A",
  ArrowDown: "B",
  ArrowRight: "C",
  ArrowLeft: "D",
  Home: "H",
  End: "F",
};

/** Keys with a number in their sequence. F11 and F12 stay with the browser. @type {Record<string, number>} */
const NUMBERS = {
  Insert: 2,
  Delete: 3,
  PageUp: 5,
  PageDown: 6,
  F5: 15,
  F6: 17,
  F7: 18,
  F8: 19,
  F9: 20,
  F10: 21,
};

/** @type {Record<string, string>} */
const FUNCTIONS = { F1: "P", F2: "Q", F3: "R", F4: "S" };

/** What Ctrl makes of characters that are no letters. @type {Record<string, string>} */
const CONTROLS = {
  " ": "\0",
  "@": "\0",
  2: "\0",
  "[": "\x1b",
  3: "\x1b",
  "\\": "\x1c",
  4: "\x1c",
  "]": "\x1d",
  5: "\x1d",
  "^": "\x1e",
  6: "\x1e",
  _: "\x1f",
  "/": "\x1f",
  7: "\x1f",
  "?": "\x7f",
  8: "\x7f",
};

/**
 * The bytes of a key; nothing if it has none.
 *
 * @param {Key} key
 * @param {boolean} applicationCursor
 * @returns {string | undefined}
 */
export function keySequence(key, applicationCursor) {
  const modifiers = 1 + Number(key.shift) + 2 * Number(key.alt) + 4 * Number(key.ctrl);
  const escape = key.alt ? "\x1b" : "";
  const letter = LETTERS[key.key];
  if (letter) {
    if (modifiers > 1) return `\x1b[1;${modifiers}${letter}`;
    return `\x1b${applicationCursor ? "O" : "["}${letter}`;
  }
  const number = NUMBERS[key.key];
  if (number) return modifiers > 1 ? `\x1b[${number};${modifiers}~` : `\x1b[${number}~`;
  const name = FUNCTIONS[key.key];
  if (name) return modifiers > 1 ? `\x1b[1;${modifiers}${name}` : `\x1bO${name}`;
  switch (key.key) {
    case "Enter":
      return `${escape}\r`;
    case "Backspace":
      return `${escape}${key.ctrl ? "\b" : "\x7f"}`;
    case "Tab":
      return key.shift ? "\x1b[Z" : `${escape}\t`;
    case "Escape":
      return `${escape}\x1b`;
  }
  if ([...key.key].length !== 1) return undefined;
  return escape + (key.ctrl ? controlCharacter(key.key) : key.key);
}

/** @param {string} character */
function controlCharacter(character) {
  const upper = character.toUpperCase();
  if (upper >= "A" && upper <= "Z") return String.fromCharCode(upper.charCodeAt(0) & 0x1f);
  return CONTROLS[character] ?? character;
}

/**
 * What is pasted, as a terminal sends it. It cannot end the paste itself, nor contain keys.
 *
 * @param {string} text
 * @param {boolean} bracketed
 */
export function pasteSequence(text, bracketed) {
  // eslint-disable-next-line no-control-regex
  const plain = text
    .replaceAll(/\r\n|\n/g, "\r")
    .replaceAll(/[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]/g, "");
  return bracketed ? `\x1b[200~${plain}\x1b[201~` : plain;
}

/**
 * An event of the mouse in the SGR form, with the cell counted from 0.
 *
 * @param {number} button 0 to 2, 32 more for movement, 64 and 65 for the wheel
 * @param {{ column: number, row: number }} cell
 * @param {boolean} pressed
 */
export function mouseSequence(button, cell, pressed) {
  return `\x1b[<${button};${cell.column + 1};${cell.row + 1}${pressed ? "M" : "m"}`;
}
