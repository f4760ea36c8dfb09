/**
 * A field for one option of a session, made from the server's description of the option.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { choiceControl, numberControl, switchControl, textControl } from "./controls.js";
import { listControl } from "./list-control.js";
import { mcpControl } from "./mcp-control.js";
import { variablesControl } from "./variables-control.js";

await loadStylesheet("/css/options.css");

/** @typedef {import("../gateway.js").OptionResponse} OptionDescription */

/**
 * What a kind of option is entered with.
 *
 * @typedef {object} Control
 * @property {HTMLElement} element
 * @property {HTMLElement[]} inputs the elements that the label, the help and the error belong to
 * @property {() => unknown} read the value, `null` if there is none; throws an `Error` for one that is no value
 * @property {(value: unknown) => void} write
 * @property {(text: string) => void} inherit shows the value that applies if there is none
 * @property {boolean} [group] it has several inputs, so the label is that of a group
 */

/**
 * @typedef {object} FieldContext
 * @property {import("../gateway.js").Me} me
 * @property {boolean} bypassAllowed
 * @property {import("../gateway.js").Agent[]} [agents] what can be chosen as an agent
 * @property {(option: OptionDescription) => string | undefined} [refuse] why an option cannot be changed here
 */

/** Labels that are better than the name of the option. */
const LABELS = /** @type {Record<string, string>} */ ({
  mode: "Permission mode",
  max_turns: "Limit of turns",
  max_budget_usd: "Limit of an agent process",
  budget_usd: "Budget",
  append_system_prompt: "Addition to the system prompt",
  mcp_config: "MCP servers",
  environment: "Environment variables",
  idle_timeout: "Pause when idle for",
  continue_after_cut: "Continue after a crash",
  session_persistence: "Keep the agent’s history",
  delete_when_ended: "Delete when it ends",
  commit: "Commit",
  copy_to: "Copy changed files to",
  scan: "Look for other changes",
  before_hook: "Before a change",
  after_hook: "After a change",
  turn_hook: "After a turn",
  gitbutler: "GitButler",
});

let fields = 0;

export class OptionField {
  /** @param {OptionDescription} option @param {FieldContext} context */
  constructor(option, context) {
    this.option = option;
    this.name = option.name;
    this.label = optionLabel(option.name);
    const id = `option-${(fields += 1)}`;
    this.control = makeControl(option, context);
    this.error = h("p", { class: "form-error", id: `${id}-error`, role: "alert" });
    const refusal = context.refuse?.(option) ?? refusalOf(option);
    const { element, inputs, group } = this.control;
    for (const input of inputs) {
      const described = [input.getAttribute("aria-describedby"), `${id}-help`, `${id}-error`];
      input.setAttribute("aria-describedby", described.filter(Boolean).join(" "));
    }
    const label = h("span", { class: "option-label", id }, this.label);
    this.element = h(
      "div",
      {
        class: "field option",
        "data-option": option.name,
        "data-kind": option.kind,
        role: group ? "group" : undefined,
        "aria-labelledby": group ? id : undefined,
      },
      group ? label : labelFor(inputs[0], label, id),
      element,
      h(
        "p",
        { class: "option-help", id: `${id}-help` },
        ...withCode(refusal ? `${option.help.replace(/\.$/, "")}. ` : option.help),
        refusal && h("strong", {}, refusal),
      ),
      this.error,
    );
    /** Why this client may not change it; empty if it may. */
    this.refusal = refusal;
    element.addEventListener("input", () => this.showError(""));
  }

  /** The value, `null` if there is none. Shows the error of one that is no value, and throws it. */
  read() {
    try {
      return this.control.read();
    } catch (problem) {
      this.showError(/** @type {Error} */ (problem).message);
      throw problem;
    }
  }

  /** @param {unknown} value */
  write(value) {
    this.control.write(value ?? null);
    if (this.refusal) disable(this.control.element);
    this.showError("");
  }

  /** Shows the value that applies if none is entered. @param {unknown} value @param {string} source */
  inherit(value, source) {
    const text = value === undefined || value === null ? "" : formatValue(value);
    this.control.inherit(text && `${source}: ${text}`);
  }

  /** @param {string} text */
  showError(text) {
    this.error.textContent = text;
    for (const input of this.control.inputs)
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
  }

  focus() {
    this.control.inputs[0]?.focus();
  }
}

/** @param {HTMLElement} input @param {HTMLElement} label @param {string} id */
function labelFor(input, label, id) {
  input.id = `${id}-input`;
  return h("label", { for: input.id }, label);
}

/** @param {OptionDescription} option @param {FieldContext} context @returns {Control} */
function makeControl(option, context) {
  switch (option.kind) {
    case "choice":
    case "agent":
      return choiceControl(option, context);
    case "integer":
    case "dollars":
      return numberControl(option);
    case "switch":
      return switchControl(option);
    case "list":
    case "directories":
      return listControl(option);
    case "variables":
      return variablesControl();
    case "mcp":
      return mcpControl();
    default:
      return textControl(option);
  }
}

/** The label of an option; one that this page does not know is labelled with its name. @param {string} name */
export function optionLabel(name) {
  const words = name.replaceAll("_", " ");
  return LABELS[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** A value in words. @param {unknown} value */
export function formatValue(value) {
  if (typeof value === "boolean") return value ? "on" : "off";
  if (Array.isArray(value)) return value.join(", ");
  if (value && typeof value === "object") return Object.keys(value).join(", ");
  return String(value);
}

/** A text whose parts in backticks are code. @param {string} text */
export function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** Why this client may not set an option. @param {OptionDescription} option */
function refusalOf(option) {
  if (option.settable) return "";
  return option.role === "admin"
    ? "Only someone with the role admin can set this."
    : "Your role cannot set this.";
}

/** @param {HTMLElement} element */
function disable(element) {
  for (const it of [element, ...element.querySelectorAll("input, select, textarea, button")])
    if (
      it instanceof HTMLInputElement ||
      it instanceof HTMLSelectElement ||
      it instanceof HTMLTextAreaElement ||
      it instanceof HTMLButtonElement
    )
      it.disabled = true;
}
