/**
 * Changes of files, one below the other or side by side. The server sends them one below the
 * other; here its own lines are put in two columns.
 *
 * @module
 */

import { h } from "./elements.js";
import { preferences } from "./preferences.js";
import { styled } from "./styles.js";

await styled("/css/diffs.css");

/** Narrower pages have no room for two columns. */
const WIDE = matchMedia("(min-width: 1100px)");

/**
 * Adds the choice above a diff, and shows it as chosen before.
 *
 * @param {HTMLElement} diff
 */
export function addDiffTools(diff) {
  const whole = diff.cloneNode(true);
  let split = false;
  const button = h("button", { type: "button", onclick: () => show(!split, true) }, "Side by side");
  const tools = h("div", { class: "diff-tools" }, button);
  // A change that only adds or only removes has nothing to stand beside.
  const both = diff.querySelector(".added") && diff.querySelector(".removed");
  if (!both || !WIDE.matches) return;
  diff.before(tools);
  /** @param {boolean} wanted @param {boolean} remember */
  const show = (wanted, remember) => {
    split = wanted;
    button.textContent = split ? "One below the other" : "Side by side";
    diff.classList.toggle("split", split);
    diff.replaceChildren(...(split ? columns(whole) : [...whole.cloneNode(true).childNodes]));
    if (remember) preferences.split = split;
  };
  if (preferences.split) show(true, false);
}

/** @param {Node} diff */
function columns(diff) {
  const left = h("div", { class: "side" });
  const right = h("div", { class: "side" });
  /** @type {Element[]} */ let removed = [];
  /** @type {Element[]} */ let added = [];
  const flush = () => {
    for (let n = 0; n < Math.max(removed.length, added.length); n += 1) {
      left.append(line(removed[n]));
      right.append(line(added[n]));
    }
    removed = [];
    added = [];
  };
  for (const row of /** @type {Element} */ (diff).children) {
    if (row.classList.contains("removed")) removed.push(row);
    else if (row.classList.contains("added")) added.push(row);
    else {
      flush();
      left.append(line(row));
      right.append(line(row));
    }
  }
  flush();
  return [left, right];
}

/** @param {Element | undefined} row */
function line(row) {
  if (!row) return h("div", { class: "line blank" });
  const copy = /** @type {HTMLElement} */ (row.cloneNode(true));
  copy.classList.add("line");
  return copy;
}
