/**
 * Diffs, unified or side by side, and comments on their lines. The server sends unified diffs; here
 * their lines are put in two columns.
 *
 * @module
 */

import { h, iconButton, PATHS } from "../ui/elements.js";
import { preferences } from "../preferences.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await loadStylesheet("/css/diffs.css");

/** A line of a diff. @typedef {{ number: string, sign: string, text: string }} DiffRow */

/** Two columns need a page of this width, without and with the side panel. */
const MIN_WIDTH = 1100;
const MIN_WIDTH_WITH_PANEL = 1480;

/**
 * Adds the layout switch above a diff and the comment button to its lines.
 *
 * @param {HTMLElement} diff
 * @param {(line: DiffRow) => void} [comment]
 */
export function addDiffTools(diff, comment) {
  const whole = diff.cloneNode(true);
  const place = comment && addComments(diff, comment);
  let split = false;
  const button = h("button", { type: "button", onclick: () => show(!split, true) }, "Side by side");
  const tools = h("div", { class: "diff-tools" }, button);
  // A diff that only adds or only removes has nothing to compare side by side.
  const both = diff.querySelector(".added") && diff.querySelector(".removed");
  if (
    !both ||
    innerWidth < (document.querySelector(".page.beside") ? MIN_WIDTH_WITH_PANEL : MIN_WIDTH)
  )
    return;
  diff.before(tools);
  /** @param {boolean} wanted @param {boolean} remember */
  const show = (wanted, remember) => {
    split = wanted;
    button.textContent = split ? "Unified" : "Side by side";
    diff.classList.toggle("split", split);
    diff.replaceChildren(...(split ? columns(whole) : [...whole.cloneNode(true).childNodes]));
    place?.();
    if (remember) preferences.split = split;
  };
  if (preferences.split) show(true, false);
}

/**
 * One button for all lines, on the line under the pointer or selected with the arrow keys, so that
 * a diff is one tab stop however long it is. A click on a line number does the same.
 *
 * @param {HTMLElement} diff
 * @param {(line: DiffRow) => void} comment
 * @returns {() => void} puts the button back after the lines were replaced
 */
function addComments(diff, comment) {
  const rows = () =>
    /** @type {HTMLElement[]} */ ([...diff.querySelectorAll(".added, .removed, .kept")]);
  const button = iconButton(
    "",
    PATHS.comment,
    (event) => {
      event.stopPropagation();
      if (button.parentElement) comment(line(button.parentElement));
    },
    { class: "comment-line", tabindex: "0" },
  );
  /** @param {Element | undefined | null} row */
  const move = (row) => {
    if (!row || row === button.parentElement) return;
    const { number, text } = line(row);
    const label = `Comment on line ${number}: ${text.trim().slice(0, 60)}`;
    button.setAttribute("aria-label", label);
    button.title = "Comment on this line";
    row.prepend(button);
  };
  const at = (/** @type {Event} */ event) =>
    /** @type {Element} */ (event.target).closest?.(".added, .removed, .kept");
  diff.classList.add("commented");
  diff.addEventListener("pointerover", (event) => {
    if (document.activeElement !== button) move(at(event));
  });
  diff.addEventListener("click", (event) => {
    const row = /** @type {Element} */ (event.target).closest("i") && at(event);
    if (row) comment(line(row));
  });
  button.addEventListener("keydown", (event) => {
    const all = rows();
    const here = all.indexOf(/** @type {HTMLElement} */ (button.parentElement));
    const next = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[
      event.key
    ];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    move(all[next]);
    button.focus();
  });
  move(rows()[0]);
  return () => move(rows()[0]);
}

/** @param {Element} row @returns {DiffRow} */
function line(row) {
  const part = (/** @type {string} */ name) => row.querySelector(name)?.textContent ?? "";
  return { number: part("i"), sign: part("b"), text: part("code") };
}

/** @param {Node} diff */
function columns(diff) {
  const left = h("div", { class: "side" });
  const right = h("div", { class: "side" });
  /** @type {Element[]} */ let removed = [];
  /** @type {Element[]} */ let added = [];
  const flush = () => {
    for (let n = 0; n < Math.max(removed.length, added.length); n += 1) {
      left.append(copied(removed[n]));
      right.append(copied(added[n]));
    }
    removed = [];
    added = [];
  };
  for (const row of /** @type {Element} */ (diff).children) {
    if (row.classList.contains("removed")) removed.push(row);
    else if (row.classList.contains("added")) added.push(row);
    else {
      flush();
      left.append(copied(row));
      right.append(copied(row));
    }
  }
  flush();
  return [left, right];
}

/** @param {Element | undefined} row */
function copied(row) {
  if (!row) return h("div", { class: "line blank" });
  const copy = /** @type {HTMLElement} */ (row.cloneNode(true));
  copy.classList.add("line");
  return copy;
}
