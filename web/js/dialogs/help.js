/**
 * Keyboard shortcuts.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";

/** @type {[string, [string, string][]][]} */
const GROUPS = [
  [
    "Anywhere",
    [
      [`${command} K`, "go to a session"],
      ["w", "next session that needs you"],
      ["c", "new session"],
      ["f", "find in the conversation"],
      ["p", "changes and tasks"],
      ["i", "focus the message field"],
      ["t", "light or dark theme"],
      ["?", "keyboard shortcuts"],
    ],
  ],
  [
    "Requests",
    [
      ["y", "allow once"],
      ["a", "always allow; again to confirm the rule"],
      ["n", "deny"],
      ["d", "deny with reason"],
      ["1 … 9", "choose an answer"],
      ["0", "write your own answer"],
      ["Enter", "next question"],
      ["Esc", "skip the question"],
    ],
  ],
  [
    "Diffs",
    [
      ["Tab", "comment button"],
      ["↑ ↓", "other line"],
      ["Enter", "quote the line in the message"],
    ],
  ],
  [
    "Message field",
    [
      ["Enter", "send, into the running turn if there is one"],
      ["Shift Enter", "new line"],
      [`${command} Enter`, "queue for after this turn"],
      ["Esc", "stop the agent, or leave the field"],
      ["↑", "edit the last message"],
      ["Shift Tab", "next permission mode"],
      ["/", "commands"],
      ["@", "files"],
    ],
  ],
];

export function openHelp() {
  openDialog({
    title: "Keyboard shortcuts",
    body: GROUPS.flatMap(([name, keys]) => [
      h("h3", {}, name),
      h(
        "dl",
        { class: "keys" },
        ...keys.flatMap(([key, about]) => [
          h("dt", {}, ...key.split(" ").flatMap((it) => [h("kbd", {}, it), " "])),
          h("dd", {}, about),
        ]),
      ),
    ]),
  });
}
