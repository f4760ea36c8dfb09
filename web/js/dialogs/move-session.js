/**
 * The dialog that moves a session to another worker of the fleet, or has one take it over from a worker that is away.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

/** @typedef {import("../gateway.js").Worker} Worker */

/** @param {import("../session-page.js").SessionPage} page */
export function openMoveSession(page) {
  const session = page.app.session(page.id);
  const isAway = Boolean(session?.worker_away);
  const worker = h("select", { required: true });
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "move-session" },
    isAway ? "Take over" : "Move",
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
      isAway
        ? "The session goes on there with everything that was confirmed. A running turn ends. What the other " +
            "machine still does until it is back is shown then, and is not part of the conversation."
        : "The session goes on there with everything, also with the messages that wait. A running turn is interrupted.",
    ),
    error,
  );
  const dialog = openDialog({
    title: isAway ? "Take over on another worker" : "Move to another worker",
    address: "move",
    class: "form",
    body: [form],
    foot: [button],
  });
  void callApi("GET", "/workers").then(
    (listed) => {
      /** @type {Worker[]} */ const all = Array.isArray(listed?.workers) ? listed.workers : [];
      const others = all.filter((it) => it.connected && it.name !== session?.worker);
      fill(worker, ...others.map((it) => h("option", { value: it.name }, it.name)));
      button.disabled = !others.length;
      if (!others.length) error.textContent = "No other worker is connected.";
    },
    (problem) => (error.textContent = problem.message),
  );
  worker.focus();
}
