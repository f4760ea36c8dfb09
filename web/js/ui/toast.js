/**
 * Short messages in a corner of the page.
 *
 * @module
 */

import { h } from "./elements.js";

/**
 * Shows a message for a moment.
 *
 * @param {string} text
 */
export function toast(text) {
  let place = document.querySelector(".toasts");
  if (!place) {
    place = h("div", { class: "toasts", role: "status" });
    document.body.append(place);
  }
  const message = h("div", { class: "toast" }, text);
  place.append(message);
  setTimeout(() => message.remove(), 5000);
}
