/**
 * The dialog that has another worker of the fleet take a session over.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

/** A worker, as far as this dialog knows it. @typedef {{ name: string, away_since?: unknown }} Worker */

/** @param {import("../session-page.js").SessionPage} page */
export function openMoveSession(page) {
  const worker = h("select", { required: true });
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "move-session" },
    "Take over",
  );
  const submit = async () => {
    button.disabled = true;
    error.textContent = "";
    try {
      await callApi("POST", sessionPath(page.id, "/move"), { to: worker.value });
      dialog.close();
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    } finally {
      button.disabled = false;
    }
  };
  const form = h(
    "form",
    {
      id: "move-session",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void submit();
      },
    },
    h("label", { class: "field" }, h("span", {}, "Worker"), worker),
    h(
      "p",
      { class: "help-text" },
      "The session goes on there with everything that was confirmed. A running turn ends. What the other " +
        "machine still does until it is back is shown then, and is not part of the conversation.",
    ),
    error,
  );
  const dialog = openDialog({
    title: "Take over on another worker",
    address: "move",
    class: "form",
    body: [form],
    foot: [button],
  });
  void callApi("GET", "/workers").then(
    (listed) => {
      /** @type {Worker[]} */ const all = Array.isArray(listed?.workers) ? listed.workers : [];
      const connected = all.filter((it) => !it.away_since);
      fill(worker, ...connected.map((it) => h("option", { value: it.name }, it.name)));
      if (!connected.length) error.textContent = "No other worker is connected.";
    },
    (problem) => (error.textContent = problem.message),
  );
  worker.focus();
}
