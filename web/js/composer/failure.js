/**
 * Why there is no agent although no user stopped it, or who has to sign in, and a button that starts it again.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";
import { describePhase, hasFailed } from "../ui/format.js";

/**
 * What someone has to do before the agent works.
 *
 * @param {import("../gateway.js").SignIn} signIn
 */
function describeSignIn({ text, methods }) {
  const ways = methods.map((method) => h("li", {}, method));
  const offer = ways.length > 0 && h("p", {}, "The agent offers:");
  const parts = text.split("`").map((part, n) => (n % 2 ? h("code", {}, part) : part));
  return [
    h("strong", {}, "Sign-in needed"),
    h("p", {}, ...parts),
    offer,
    ways.length > 0 && h("ul", {}, ...ways),
  ];
}

/** @param {import("../session-page.js").SessionPage} page */
export function showFailure({ actions, canDrive, conversation, failure: place }) {
  if (!conversation) return;
  const { status } = conversation;
  const { sign_in: signIn } = status;
  place.hidden = !signIn && !hasFailed(status.phase);
  if (place.hidden) return;
  const button = h("button", { type: "button", class: "button" }, "Try again");
  button.addEventListener("click", async () => {
    button.disabled = true;
    await actions.wake();
    button.disabled = false;
  });
  place.classList.toggle("sign-in", Boolean(signIn));
  const text = signIn ? describeSignIn(signIn) : [describePhase(status, Date.now())];
  fill(place, h("div", { class: "failure-text" }, ...text), canDrive && button);
}
