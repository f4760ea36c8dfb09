/**
 * The question before an agent may do everything without asking.
 *
 * @module
 */

import { confirmAction } from "./dialogs.js";

/** @param {string} [text] the server's words */
export function confirmBypass(text) {
  return confirmAction(
    "Let the agent do everything?",
    text ??
      "In this mode the agent runs every command and changes every file without asking you, with the rights of the server. Text it reads, such as a web page or an issue, can talk it into harm.",
    "Allow everything",
  );
}
