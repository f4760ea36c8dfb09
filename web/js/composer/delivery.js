/**
 * What happens to a message that is sent while a turn runs: it joins the turn, or it waits for its end.
 * The choice is remembered in this browser.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";
import { preferences } from "../preferences.js";

/** @type {["steer" | "queue", string, string][]} */
const CHOICES = [
  ["steer", "Send now", "Into the running turn"],
  ["queue", "Queue", "After the running turn"],
];

/** @param {HTMLElement} place @param {() => void} changed */
export function showDeliveryChoice(place, changed) {
  if (place.firstChild) return;
  const buttons = CHOICES.map(([delivery, label, about]) =>
    h(
      "button",
      {
        type: "button",
        role: "radio",
        title: about,
        "data-delivery": delivery,
        onclick: () => choose(delivery),
      },
      label,
    ),
  );
  const show = () => {
    for (const button of buttons) {
      const chosen = button.dataset.delivery === preferences.delivery;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
  };
  const choose = (/** @type {"steer" | "queue"} */ delivery) => {
    preferences.delivery = delivery;
    show();
    changed();
  };
  place.setAttribute("role", "radiogroup");
  place.setAttribute("aria-label", "While a turn runs");
  place.addEventListener("keydown", (event) => {
    if (!/^Arrow/.test(event.key)) return;
    event.preventDefault();
    choose(preferences.delivery === "steer" ? "queue" : "steer");
    buttons.find((it) => it.tabIndex === 0)?.focus();
  });
  fill(place, ...buttons);
  show();
}
