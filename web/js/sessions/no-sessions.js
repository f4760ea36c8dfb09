/**
 * What the page shows while there is no session.
 *
 * @module
 */

import { h } from "../ui/elements.js";

/** @param {() => void} begin a new session @param {() => void} showOthers sessions of a terminal */
export function noSessions(begin, showOthers) {
  return h(
    "div",
    { class: "empty" },
    h("img", { src: "/icon.svg", alt: "" }),
    h("h2", {}, "No sessions yet"),
    h("p", {}, "A session is a conversation with an agent that works in one of your directories."),
    h(
      "div",
      { class: "empty-actions" },
      h("button", { type: "button", class: "button primary", onclick: begin }, "New session"),
      h(
        "button",
        { type: "button", class: "button", onclick: showOthers },
        "Continue one of a terminal",
      ),
    ),
  );
}
