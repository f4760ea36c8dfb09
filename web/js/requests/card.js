/**
 * What the cards of requests have in common.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { htmlNodes } from "../ui/trusted-html.js";

/** @typedef {import("../gateway.js").Request} Request */
/** @typedef {import("../gateway.js").AnswerRequest} AnswerRequest */
/** @typedef {(answer: AnswerRequest) => Promise<void>} SendAnswer */
/** @typedef {{ title: string, body: HTMLElement, key: (event: KeyboardEvent) => boolean }} Card */

/**
 * The input of a request's call.
 *
 * @param {Request} request
 * @returns {Record<string, any>}
 */
export function callInput(request) {
  try {
    const input = JSON.parse(request.input);
    return input && typeof input === "object" ? input : {};
  } catch {
    return {};
  }
}

/**
 * The body of a call's element, without its heading.
 *
 * @param {string} html
 */
export function callBody(html) {
  const all = htmlNodes(html);
  const body = all.querySelector(".body");
  if (!body) return all;
  if (body.firstElementChild?.matches("p.remark")) body.firstElementChild.remove();
  const content = document.createDocumentFragment();
  content.append(...body.childNodes);
  return content;
}

/**
 * A button that shows its key.
 *
 * @param {string} label
 * @param {string} key
 * @param {string} look
 * @param {() => void} press
 */
export function keyButton(label, key, look, press) {
  return h(
    "button",
    { type: "button", class: `button ${look}`, onclick: press, "aria-keyshortcuts": key },
    label,
    h("kbd", { "aria-hidden": "true" }, key),
  );
}

/**
 * A hidden form for a text that is sent with a denial.
 *
 * @param {{ placeholder: string, label: string, button: string, send: (text: string) => void }} options
 */
export function reasonForm({ placeholder, label, button, send }) {
  const field = h("input", { type: "text", placeholder, "aria-label": label });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    send(field.value.trim());
  };
  const form = h(
    "form",
    { class: "request-reason", hidden: true, onsubmit: submit },
    field,
    h("button", { type: "submit", class: "button danger" }, button),
    cancelButton(),
  );
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    closeForm(form);
  });
  const open = () => {
    form.hidden = false;
    field.focus();
  };
  return { form, open };
}

/**
 * Hides a form, so that the buttons of the card are shown again.
 *
 * @param {HTMLFormElement} form
 */
function closeForm(form) {
  form.hidden = true;
  /** @type {HTMLElement | null} */ (form.closest(".request"))?.focus();
}

/** A button that closes the form it is in. */
export function cancelButton() {
  const close = () => button.form && closeForm(button.form);
  const button = h("button", { type: "button", class: "button quiet", onclick: close }, "Cancel");
  return button;
}

/**
 * Handles a key with one of several actions.
 *
 * @param {Record<string, () => void>} actions
 */
export function keyHandler(actions) {
  return (/** @type {KeyboardEvent} */ event) => {
    const action = actions[event.key];
    if (action) action();
    return Boolean(action);
  };
}
