/**
 * Keyboard shortcuts.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await loadStylesheet("/css/help.css");

const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";

/** @type {[string, [string, string][]][]} */
const GROUPS = [
  [
    "Anywhere",
    [
      [`${command} K`, "go to a session"],
      ["s", "search all sessions"],
      [`${command} Shift F`, "search all sessions, from anywhere"],
      ["w", "next session that needs you"],
      ["c", "new session"],
      ["g c", "the conversation"],
      ["g f", "files"],
      ["g g", "git"],
      ["g t", "terminal"],
      ["f", "find in the conversation"],
      ["o", "your messages in this session"],
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
      ["e", "allow all edits in this project"],
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
    "Git",
    [
      ["↑ ↓", "other file or commit"],
      ["Space", "stage or unstage the file"],
      ["Delete", "discard its changes, after a question"],
      [`${command} Enter`, "commit, in the message"],
    ],
  ],
  [
    "Message field",
    [
      ["Enter", "send; while a turn runs, as chosen: send now or queue"],
      [`${command} Enter`, "the other of the two"],
      ["Shift Enter", "new line"],
      ["Esc", "go to the request, or stop the turn and hold the queue, or leave the field"],
      ["r", "resume the queue; also Enter in the empty field"],
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
    address: "help",
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
