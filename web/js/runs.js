/**
 * Calls of the same sort in a row that only looked and went well, folded into one line.
 *
 * @module
 */

import { h } from "./elements.js";

/** As many in a row are folded. */
const RUN = 3;
const LOOKS = new Set(["read", "search", "fetch", "search_web"]);

/**
 * Folds the runs of a log anew.
 *
 * @param {HTMLElement} log
 * @param {Set<string>} expanded runs that a person opened, by their first item
 */
export function foldRuns(log, expanded) {
  for (const container of log.querySelectorAll("section.turn, .children")) fold(container, expanded);
}

/** @param {Element} container @param {Set<string>} expanded */
function fold(container, expanded) {
  container.querySelectorAll(":scope > .fold").forEach((it) => it.remove());
  /** @type {HTMLElement[]} */ let run = [];
  const flush = () => {
    if (run.length >= RUN) close(run, expanded);
    else run.forEach((it) => it.classList.remove("folded"));
    run = [];
  };
  for (const child of container.children) {
    if (!(child instanceof HTMLElement) || child.hidden) continue;
    const sort = foldable(child);
    if (sort && (run.length === 0 || foldable(run[0]) === sort)) run.push(child);
    else {
      flush();
      child.classList.remove("folded");
      if (sort) run.push(child);
    }
  }
  flush();
}

/** The sort of call an entry is, if it may be folded away with others. @param {HTMLElement} entry */
function foldable(entry) {
  const item = entry.querySelector(":scope > .item.call.look.done, :scope > .item.call.web.done");
  return item?.querySelector(".verb")?.textContent ?? (LOOKS.has(entry.dataset.verb ?? "") ? entry.dataset.verb : "");
}

/** @param {HTMLElement[]} run @param {Set<string>} expanded */
function close(run, expanded) {
  const key = run[0].dataset.id ?? "";
  const open = expanded.has(key);
  const targets = run.map((it) => (it.querySelector(".target")?.textContent ?? "").split("/").pop());
  const button = h("button", { type: "button", class: "fold", "aria-expanded": String(open), onclick: () => {
    if (expanded.has(key)) expanded.delete(key);
    else expanded.add(key);
    const now = expanded.has(key);
    button.setAttribute("aria-expanded", String(now));
    run.forEach((it) => it.classList.toggle("folded", !now));
  } },
    h("span", { class: "icon" }, "⋯"),
    h("span", { class: "verb" }, `${foldable(run[0])} × ${run.length}`),
    h("span", { class: "target" }, targets.slice(0, 6).join(", ")),
    h("span", { class: "mark" }, "✔"));
  run[0].before(button);
  run.forEach((it) => it.classList.toggle("folded", !open));
}
