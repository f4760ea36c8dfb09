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
  let place = /** @type {HTMLElement | null} */ (document.querySelector(".toasts"));
  if (!place) {
    place = h("div", { class: "toasts", role: "status", popover: "manual" });
    document.body.append(place);
  }
  const message = h("div", { class: "toast" }, text);
  place.append(message);
  // Shown again, it is above dialogs that were opened in the meantime.
  if (place.matches(":popover-open")) place.hidePopover();
  place.showPopover();
  setTimeout(() => message.remove(), 5000);
}
