/**
 * Why there is no agent although no user stopped it, and a button that starts it again.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";
import { describePhase, hasFailed } from "../ui/format.js";

/**
 * @param {HTMLElement} place
 * @param {import("../gateway.js").Status} status
 * @param {false | (() => Promise<void>)} start starts the agent, if the user may do that
 */
export function showFailure(place, status, start) {
  place.hidden = !hasFailed(status.phase);
  if (place.hidden) return;
  const button = h("button", { type: "button", class: "button" }, "Try again");
  button.addEventListener("click", async () => {
    button.disabled = true;
    if (start) await start();
    button.disabled = false;
  });
  fill(place, h("span", {}, describePhase(status, Date.now())), start && button);
}
