/**
 * A session as one HTML file, for passing on.
 *
 * @module
 */

import { exportAddress } from "../api.js";
import { h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

/** @param {import("../session-page.js").SessionPage} page */
export function openShare(page) {
  const output = h("input", { type: "checkbox", role: "switch", checked: true });
  const link = h(
    "a",
    { class: "button primary", download: "", href: exportAddress(page.id, true) },
    "Download",
  );
  output.addEventListener("change", () => (link.href = exportAddress(page.id, output.checked)));
  const dialog = openDialog({
    title: "Share as HTML",
    address: "share",
    body: [
      h(
        "p",
        {},
        "One file that opens in any browser, without this server and without a network. It has the whole conversation: messages, answers, what tools did, changed files, times and cost.",
      ),
      h(
        "label",
        { class: "switch-field" },
        h(
          "span",
          {},
          "Output of tools",
          h("small", {}, "What commands printed, and what was in the files that were read"),
        ),
        output,
      ),
      h(
        "p",
        { class: "help-text" },
        "It also has paths, names of files and whatever was written in commands. Look through it before you pass it on.",
      ),
    ],
    foot: [link],
  });
  link.addEventListener("click", () => setTimeout(() => dialog.close()));
}
