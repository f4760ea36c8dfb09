/**
 * What is shown in place of a conversation that has not begun.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";

/** What the built-in agent understands. */
export const EXAMPLES = [
  "Give me a tour",
  "Ask me a question",
  "Make a plan",
  "Edit a file",
  "Use a helper agent",
];

/**
 * @param {HTMLElement} place
 * @param {HTMLElement} project the name of the directory
 * @param {string} agent its name
 * @param {string[]} examples messages to begin with
 * @param {(text: string) => void} send
 */
export function fillEmptyState(place, project, agent, examples, send) {
  fill(
    place,
    h("img", { src: "/icon.svg", alt: "" }),
    h("h2", {}, `What should ${agent} do?`),
    h(
      "p",
      {},
      `${agent} works in `,
      project,
      ", asks before it changes things, and continues when you close this page.",
    ),
    examples.length > 0 &&
      h(
        "div",
        { class: "examples" },
        ...examples.map((text) =>
          h("button", { type: "button", class: "button", onclick: () => send(text) }, text),
        ),
      ),
  );
}
