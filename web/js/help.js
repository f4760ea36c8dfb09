/**
 * The keys, and what they do.
 *
 * @module
 */

import { h } from "./elements.js";
import { openSheet } from "./sheets.js";

const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";

/** @type {[string, [string, string][]][]} */
const GROUPS = [
  ["Anywhere", [[`${command} K`, "go to a session"], ["w", "next session that waits for you"], ["c", "new session"], ["f", "find in the conversation"], ["p", "changes and tasks"], ["i", "write"], ["t", "light or dark"], ["?", "this page"]]],
  ["When it asks", [["y", "allow once"], ["a", "allow and remember; twice to confirm the rule"], ["n", "deny"], ["d", "deny and say why"], ["1 … 9", "choose an answer"], ["0", "answer in your own words"], ["Enter", "next question"], ["Esc", "skip the question"]]],
  ["On a change of a file", [["Tab", "to its line for comments"], ["↑ ↓", "another line"], ["Enter", "quote the line in the message"]]],
  ["While writing", [["Enter", "send; joins the turn if one runs"], ["Shift Enter", "new line"], [`${command} Enter`, "send after this turn"], ["Esc", "stop the agent; leave the field if none works"], ["↑", "change the last prompt"], ["Shift Tab", "next permission mode"], ["/", "commands"], ["@", "files"]]],
];

export function openHelp() {
  openSheet({ title: "Keys", body: GROUPS.flatMap(([name, keys]) => [
    h("h3", {}, name),
    h("dl", { class: "keys" }, ...keys.flatMap(([key, about]) => [h("dt", {}, ...key.split(" ").flatMap((it) => [h("kbd", {}, it), " "])), h("dd", {}, about)])),
  ]) });
}
