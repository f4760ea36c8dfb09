/**
 * Errors that say the same one after another, such as those of an agent that cannot be started, are
 * shown once with their number.
 *
 * @module
 */

import { h } from "../ui/elements.js";

/** @param {HTMLElement} log */
export function foldRepeatedErrors(log) {
  log.querySelectorAll(".repeated-count").forEach((it) => it.remove());
  /** @type {HTMLElement[]} */ let same = [];
  let text = "";
  const flush = () => {
    same.forEach((it, n) => it.classList.toggle("repeated", n + 1 < same.length));
    const place = same.at(-1)?.querySelector("summary, .item");
    if (same.length > 1)
      place?.append(h("span", { class: "repeated-count" }, `${same.length} times`));
    same = [];
  };
  for (const entry of /** @type {NodeListOf<HTMLElement>} */ (log.querySelectorAll(".entry"))) {
    if (entry.hidden || entry.classList.contains("folded")) continue;
    const error = entry.querySelector(":scope > .item.note.error");
    const now = error?.textContent ?? "";
    if (now !== text) flush();
    text = now;
    if (error) same.push(entry);
  }
  flush();
}
