/**
 * Small dialogs about files.
 *
 * @module
 */

import { openDialog } from "../dialogs/dialogs.js";
import { h } from "../ui/elements.js";
import { toast } from "../ui/toast.js";

/**
 * Asks for a path until it can be used. Returns it, or nothing if the user gave up.
 *
 * @param {string} title
 * @param {string} path
 * @param {string} action
 * @param {(path: string) => Promise<unknown>} use
 * @returns {Promise<string | undefined>}
 */
export function askPath(title, path, action, use) {
  return new Promise((resolve) => {
    /** @type {string | undefined} */ let done;
    const field = h("input", {
      class: "input",
      id: "file-path",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      required: true,
    });
    field.value = path;
    const problemPlace = h("p", { class: "form-error", role: "alert" });
    const button = h("button", { type: "submit", class: "button primary" }, action);
    const form = h(
      "form",
      {
        id: "file-path-form",
        onsubmit: async (/** @type {Event} */ event) => {
          event.preventDefault();
          const wanted = field.value.trim().replace(/^\/+|\/+$/g, "");
          button.disabled = true;
          try {
            await use(wanted);
            done = wanted;
            dialog.close();
          } catch (problem) {
            problemPlace.textContent = /** @type {Error} */ (problem).message;
            button.disabled = false;
            field.focus();
          }
        },
      },
      h("label", { for: "file-path" }, "Path in the project"),
      field,
      problemPlace,
    );
    button.setAttribute("form", "file-path-form");
    const dialog = openDialog({
      title,
      body: [form],
      foot: [
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
        button,
      ],
      unsaved: () => field.value !== path,
    });
    dialog.addEventListener("close", () => resolve(done));
    field.focus();
    // The name is what is changed most often.
    const cut = path.lastIndexOf("/") + 1;
    const dot = path.lastIndexOf(".");
    field.setSelectionRange(cut, dot > cut ? dot : path.length);
  });
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying here.");
  }
}
