/**
 * The dialog that continues a conversation with another agent: a new session in the same directory that
 * gets a summary of this one.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

/** @param {import("../session-page.js").SessionPage} page */
export function openHandover(page) {
  const agent = h("select", { required: true });
  const about = h("p", { class: "option-help" });
  const prompt = h("textarea", { rows: "3", placeholder: "Optional: what to do next" });
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "handover" },
    "Continue",
  );
  /** @type {import("../gateway.js").Agent[]} */ let agents = [];
  const describe = () => {
    const chosen = agents.find((it) => it.name === agent.value);
    about.textContent = chosen && !chosen.installed ? `Install it first: ${chosen.install}` : "";
  };
  agent.addEventListener("change", describe);
  const submit = async () => {
    button.disabled = true;
    error.textContent = "";
    try {
      const body = { agent: agent.value, prompt: prompt.value.trim() || undefined };
      const { id } = await callApi("POST", sessionPath(page.id, "/handover"), body);
      dialog.close();
      location.hash = `#/s/${id}`;
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    } finally {
      button.disabled = false;
    }
  };
  const form = h(
    "form",
    {
      id: "handover",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void submit();
      },
    },
    h("label", { class: "field" }, h("span", {}, "Agent"), agent),
    about,
    h("label", { class: "field" }, h("span", {}, "First message"), prompt),
    h(
      "p",
      { class: "help-text" },
      "The agent gets the messages of this conversation in short, and the files that were changed.",
    ),
    error,
  );
  const dialog = openDialog({
    title: "Continue with another agent",
    address: "handover",
    class: "form",
    body: [form],
    foot: [button],
    unsaved: () => Boolean(prompt.value.trim()),
  });
  void callApi("GET", "/agents").then(
    (listed) => {
      agents = listed.agents;
      const present = page.app.session(page.id)?.agent.name;
      const others = agents.filter((it) => it.name !== present);
      const sorted = [
        ...others.filter((it) => it.installed),
        ...others.filter((it) => !it.installed),
      ];
      fill(
        agent,
        ...sorted.map((it) =>
          h("option", { value: it.name }, it.installed ? it.title : `${it.title} (not installed)`),
        ),
      );
      describe();
    },
    (problem) => (error.textContent = problem.message),
  );
  agent.focus();
}
