/**
 * The card of a request that Towpath cannot read: its raw content, and a way to refuse it. The agent
 * waits for an answer, and only a refusal is safe.
 *
 * @module
 */

import { keyButton, keyHandler, reasonForm } from "./card.js";
import { h } from "../ui/elements.js";

/**
 * @param {import("./card.js").Request} request
 * @param {import("./card.js").SendAnswer} answer
 * @param {() => void} leave
 * @param {string} agent its name
 * @returns {import("./card.js").Card}
 */
export function unknownCard(request, answer, leave, agent) {
  const reason = reasonForm({
    placeholder: `What should ${agent} do instead?`,
    label: "Reason",
    button: "Deny with reason",
    send: (message) => void answer({ decision: "deny", message: message || undefined }),
  });
  const deny = () => void answer({ decision: "deny" });
  const parts = request.disclosures.length
    ? request.disclosures
    : [{ label: "Input", text: request.input }];
  const body = h(
    "div",
    { class: "request-inner" },
    h(
      "div",
      { class: "request-body", tabindex: "0", role: "region", "aria-label": "Details" },
      h(
        "p",
        { class: "help-text" },
        "This version of Towpath does not know this kind of request, so it can only be denied. The agent waits until then.",
      ),
      ...parts.map(({ label, text }) =>
        h("div", { class: "disclosure" }, h("h3", {}, label), h("pre", { class: "given" }, text)),
      ),
    ),
    h(
      "div",
      { class: "request-actions" },
      keyButton("Deny", "n", "danger", deny),
      keyButton("Deny with reason", "d", "quiet", reason.open),
    ),
    reason.form,
  );
  const key = keyHandler({ n: deny, d: reason.open, Escape: leave });
  const name = request.tool ? `: ${request.tool}` : "";
  return { title: `The agent asks for something unknown${name}`, body, key };
}
