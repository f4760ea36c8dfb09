/**
 * Words that stand in a corner for a moment.
 *
 * @module
 */

import { h } from "./elements.js";

/**
 * Says something for a moment.
 *
 * @param {string} text
 */
export function toast(text) {
  let place = document.querySelector(".toasts");
  if (!place) {
    place = h("div", { class: "toasts", role: "status" });
    document.body.append(place);
  }
  const one = h("div", { class: "toast" }, text);
  place.append(one);
  setTimeout(() => one.remove(), 5000);
}
