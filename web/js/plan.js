/**
 * A plan to be approved: with edits accepted from there on, with a word on each, or sent back.
 *
 * @module
 */

import { given, inside, keyButton } from "./card.js";
import { h } from "./elements.js";

/**
 * @param {import("./gateway.js").Request} request
 * @param {(answer: import("./asks.js").Answer) => Promise<void>} answer
 * @param {() => void} leave
 * @returns {import("./asks.js").Card}
 */
export function planCard(request, answer, leave) {
  const words = h("input", { type: "text", placeholder: "What should be different?", "aria-label": "What should be different" });
  const back = h("form", { class: "request-why", hidden: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    refuse();
  } }, words, h("button", { type: "submit", class: "button" }, "Send it back"));
  const approve = (/** @type {string} */ mode) => void answer({ decision: "allow", mode });
  const refuse = () => void answer({ decision: "deny", message: words.value.trim() || "Keep planning." });
  const keep = () => {
    back.hidden = false;
    words.focus();
  };
  words.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    back.hidden = true;
    /** @type {HTMLElement | null} */ (body.closest(".request"))?.focus();
  });
  const plan = request.html ? inside(request.html) : String(given(request).plan ?? "");
  const body = h("div", { class: "request-inner" },
    h("div", { class: "request-body", tabindex: "0", role: "region", "aria-label": "The plan" }, h("div", { class: "item plan-words" }, plan)),
    h("div", { class: "request-actions" },
      keyButton("Approve, accept edits", "a", "primary", () => approve("acceptEdits")),
      keyButton("Approve, ask each", "y", "", () => approve("default")),
      h("span", { class: "room" }),
      keyButton("Keep planning", "n", "quiet", keep)),
    back);
  const keys = /** @type {Record<string, () => void>} */ ({ a: () => approve("acceptEdits"), 1: () => approve("acceptEdits"), y: () => approve("default"), 2: () => approve("default"), n: keep, d: keep, 3: keep, Escape: leave });
  return { title: "It has a plan", body, key: (event) => {
    const act = keys[event.key];
    if (act) act();
    return Boolean(act);
  } };
}
