/**
 * The agent's own choices as the buttons of a card, each with the agent's words and a key.
 *
 * @module
 */

import { keyButton } from "./card.js";
import { h } from "../ui/elements.js";

/** @typedef {import("../gateway.js").Choice} Choice */

/** @param {Choice} choice */
const allows = (choice) => choice.kind.startsWith("allow");

/** As many choices, with as many letters in all, fit into one row of the narrowest screen. */
const MAX_ROW = { choices: 3, letters: 24 };

/**
 * Few short choices are a row of buttons. Others are a list that scrolls, with all of their words, above a
 * row in which a plain *Allow* and *Deny* are always in sight.
 *
 * @param {Choice[]} choices
 * @param {{ choose: (choice: Choice) => void, deny: () => void, mayAllow: () => boolean, showAll: () => void }} page
 */
export function choiceButtons(choices, page) {
  const take = (/** @type {Choice} */ choice) => () => {
    if (allows(choice) && !page.mayAllow()) page.showAll();
    else page.choose(choice);
  };
  const [yes, no] = [narrowest(choices, true), narrowest(choices, false)];
  /** @type {Record<string, () => void>} */
  const keys = {};
  // Those that allow come first in the agent's order, those that refuse follow.
  const sorted = [...choices.filter(allows), ...choices.filter((it) => !allows(it))];
  const buttons = sorted.map((choice, n) => {
    const key = n < 9 ? String(n + 1) : "";
    if (key) keys[key] = take(choice);
    const look = allows(choice) ? (choice === yes ? "primary" : "") : "danger";
    const button = keyButton(choice.name, key, `own-choice ${look}`, take(choice));
    if (!key) button.querySelector("kbd")?.remove();
    button.dataset.choice = choice.id;
    return button;
  });
  if (yes) keys.y = take(yes);
  keys.n = no ? take(no) : page.deny;
  const allowing = buttons.filter((_, n) => allows(sorted[n]));
  const deny = keyButton("Deny", "n", "danger", keys.n);
  const letters = choices.reduce((sum, it) => sum + it.name.length, 0);
  if (choices.length <= MAX_ROW.choices && letters <= MAX_ROW.letters) {
    const row = no ? buttons : [...buttons, deny];
    return { elements: [actions(row)], allowing, keys };
  }
  const list = h(
    "div",
    { class: "own-choices", role: "group", "aria-label": "Choices", tabindex: "0" },
    ...buttons,
  );
  const allow = yes && keyButton("Allow", "y", "primary", keys.y);
  for (const [button, choice] of /** @type {const} */ ([
    [allow, yes],
    [deny, no],
  ])) {
    if (button && choice) button.title = choice.name;
  }
  const plain = allow ? [allow] : [];
  return { elements: [list, actions([...plain, deny])], allowing: [...allowing, ...plain], keys };
}

/** @param {HTMLElement[]} buttons */
const actions = (buttons) =>
  h("div", { class: "request-actions", role: "group", "aria-label": "Answers" }, ...buttons);

/**
 * The choice that a plain yes or no stands for: one that counts once, if there is one.
 *
 * @param {Choice[]} choices
 * @param {boolean} allowing
 */
function narrowest(choices, allowing) {
  const same = choices.filter((it) => allows(it) === allowing);
  return same.find((it) => it.kind.endsWith("_once")) ?? same[0];
}
