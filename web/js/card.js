/**
 * What the cards of requests have in common.
 *
 * @module
 */

import { h } from "./elements.js";
import { nodes } from "./trusted.js";

/** @typedef {import("./gateway.js").Request} Request */

/** What a request would have the tool do, as values. @param {Request} request @returns {Record<string, any>} */
export function given(request) {
  try {
    const input = JSON.parse(request.input);
    return input && typeof input === "object" ? input : {};
  } catch {
    return {};
  }
}

/**
 * What the call would do: its body without the line above it, which the card says itself.
 *
 * @param {string} html
 */
export function inside(html) {
  const all = nodes(html);
  const body = all.querySelector(".body");
  if (!body) return all;
  if (body.firstElementChild?.matches("p.remark")) body.firstElementChild.remove();
  const inner = document.createDocumentFragment();
  inner.append(...body.childNodes);
  return inner;
}

/** A button that says its key. @param {string} words @param {string} key @param {string} look @param {() => void} press */
export function keyButton(words, key, look, press) {
  return h("button", { type: "button", class: `button ${look}`, onclick: press, "aria-keyshortcuts": key }, words, h("kbd", { "aria-hidden": "true" }, key));
}

