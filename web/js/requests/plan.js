/**
 * The card of a plan: approving it with one of the modes that the server offers, or sending it back.
 *
 * @module
 */

import { callBody, callInput, keyButton, keyHandler, reasonForm } from "./card.js";
import { h } from "../ui/elements.js";

/** The keys of the offered modes, in their order. */
const MODE_KEYS = ["a", "y"];

/**
 * @param {import("./card.js").Request} request
 * @param {import("./card.js").SendAnswer} answer
 * @param {() => void} leave
 * @param {string} agent its name
 * @returns {import("./card.js").Card}
 */
export function planCard(request, answer, leave, agent) {
  const reason = reasonForm({
    placeholder: "What should be different?",
    label: "Reason",
    button: "Send back",
    send: (message) => void answer({ decision: "deny", message: message || undefined }),
  });
  /** @type {Record<string, () => void>} */
  const keys = { n: reason.open, d: reason.open, Escape: leave };
  const buttons = request.modes.map((mode, n) => {
    const approve = () => void answer({ decision: "allow", mode: mode.id });
    const key = MODE_KEYS[n] ?? String(n + 1);
    keys[key] = keys[String(n + 1)] = approve;
    const button = keyButton(`Approve: ${mode.label}`, key, n === 0 ? "primary" : "", approve);
    button.title = mode.description;
    return button;
  });
  const plan = request.html ? callBody(request.html) : String(callInput(request).plan ?? "");
  const body = h(
    "div",
    { class: "request-inner" },
    h(
      "div",
      { class: "request-body", tabindex: "0", role: "region", "aria-label": "Plan" },
      h("div", { class: "item plan-text" }, plan),
    ),
    h(
      "div",
      { class: "request-actions" },
      ...buttons,
      h("span", { class: "spacer" }),
      keyButton("Keep planning", "n", "quiet", reason.open),
    ),
    reason.form,
  );
  return { title: `${agent} has a plan`, body, key: keyHandler(keys) };
}
