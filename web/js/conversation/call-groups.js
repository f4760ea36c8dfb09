/**
 * Groups of consecutive calls of the same kind that only read and succeeded, folded into one line.
 *
 * @module
 */

import { h } from "../ui/elements.js";

/** How many calls make a group. */
const MIN_CALLS = 3;

/**
 * Folds the groups of a log.
 *
 * @param {HTMLElement} log
 * @param {Set<string>} expanded groups that the user opened, by their first item
 */
export function groupCalls(log, expanded) {
  for (const container of log.querySelectorAll("section.turn, .children"))
    fold(container, expanded);
}

/** @param {Element} container @param {Set<string>} expanded */
function fold(container, expanded) {
  container.querySelectorAll(":scope > .fold").forEach((it) => it.remove());
  /** @type {HTMLElement[]} */ let group = [];
  const flush = () => {
    if (group.length >= MIN_CALLS) foldGroup(group, expanded);
    else group.forEach((it) => it.classList.remove("folded"));
    group = [];
  };
  for (const child of container.children) {
    if (!(child instanceof HTMLElement) || child.hidden) continue;
    const kind = groupKind(child);
    if (kind && (group.length === 0 || groupKind(group[0]) === kind)) group.push(child);
    else {
      flush();
      child.classList.remove("folded");
      if (kind) group.push(child);
    }
  }
  flush();
}

/** The kind of call an element shows, if it may be grouped. @param {HTMLElement} entry */
function groupKind(entry) {
  // One that failed or was denied is never part of a group, which has a mark of success.
  const item = entry.querySelector(":scope > .item.call.look.done, :scope > .item.call.web.done");
  return item?.querySelector(".verb")?.textContent ?? "";
}

/** @param {HTMLElement[]} group @param {Set<string>} expanded */
function foldGroup(group, expanded) {
  const key = group[0].dataset.id ?? "";
  const open = expanded.has(key);
  const targets = group.map((it) =>
    (it.querySelector(".target")?.textContent ?? "").split("/").pop(),
  );
  const button = h(
    "button",
    {
      type: "button",
      class: "fold",
      "aria-expanded": String(open),
      onclick: () => {
        if (expanded.has(key)) expanded.delete(key);
        else expanded.add(key);
        const now = expanded.has(key);
        button.setAttribute("aria-expanded", String(now));
        group.forEach((it) => it.classList.toggle("folded", !now));
      },
    },
    h("span", { class: "icon" }, "⋯"),
    h("span", { class: "verb" }, `${groupKind(group[0])} × ${group.length}`),
    h("span", { class: "target" }, targets.slice(0, 6).join(", ")),
    h("span", { class: "mark" }, "✔"),
  );
  group[0].before(button);
  group.forEach((it) => it.classList.toggle("folded", !open));
}
