/**
 * Deleting a session that has a working tree of its own.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { h } from "../ui/elements.js";
import { plural } from "../ui/format.js";
import { openDialog } from "./dialogs.js";

/**
 * @param {import("../session-page.js").SessionPage} page
 * @param {import("../gateway.js").OwnWorktree} worktree
 */
export function removeWithWorktree(page, worktree) {
  const lost = [
    worktree.files > 0 && plural(worktree.files, "uncommitted file"),
    worktree.commits > 0 && `${plural(worktree.commits, "commit")} that no other branch has`,
  ].filter(Boolean);
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", form: "delete-session", class: "button danger" },
    "Delete",
  );
  const choice = (
    /** @type {string} */ value,
    /** @type {string} */ name,
    /** @type {string} */ about,
    /** @type {boolean} */ checked,
  ) =>
    h(
      "label",
      { class: "radio-field" },
      h("input", { type: "radio", name: "worktree", value, checked }),
      h("span", {}, name, h("small", {}, about)),
    );
  const form = h(
    "form",
    {
      id: "delete-session",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        const fate = String(new FormData(form).get("worktree"));
        try {
          await callApi("DELETE", sessionPath(page.id, `?worktree=${fate}`));
          dialog.close();
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
          button.disabled = false;
        }
      },
    },
    h("p", {}, "This stops its agent and deletes its history."),
    h(
      "fieldset",
      { class: "radio-fields" },
      h("legend", {}, "Its working tree"),
      choice("keep", "Keep it", `${worktree.path}, branch ${worktree.branch}`, lost.length > 0),
      lost.length
        ? choice("discard", "Remove it with its branch", `Lost for good: ${lost.join(", ")}`, false)
        : choice("remove", "Remove it with its branch", "Nothing is lost", true),
    ),
    error,
  );
  const dialog = openDialog({
    title: "Delete this session?",
    body: [form],
    foot: [
      h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
      button,
    ],
  });
}
