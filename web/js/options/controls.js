/**
 * Controls for options with one value: text, a choice, a number, a switch.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";

/** @typedef {import("../gateway.js").OptionResponse} OptionDescription */
/** @typedef {import("./option-field.js").Control} Control */
/** @typedef {{ value: string, label?: string, description?: string, disabled?: boolean }} Choice */

const DURATIONS = ["15m", "30m", "2h", "1d", "never"];
const MODELS = ["opus", "sonnet", "haiku"];
/** Labels of choices that are better than their values. */
const CHOICES = /** @type {Record<string, string>} */ ({
  turn: "After each turn",
  change: "After each change",
});
/** What is shown in place of a value that is not set. */
const UNSET = /** @type {Record<string, string>} */ ({
  agent: "Default",
  model: "Default",
  effort: "Default",
  mode: "Default",
  idle_timeout: "30m",
  commit: "Never",
  branch: "The branch that is checked out",
});
/** Texts that the CLI or the system reads, and no person. */
export const PLAIN = { spellcheck: "false", autocapitalize: "off", autocomplete: "off" };

let lists = 0;

/** A text, a duration, or a long text. @param {OptionDescription} option @returns {Control} */
export function textControl(option) {
  const placeholder = UNSET[option.name] ?? "Not set";
  const multiline = option.kind === "multiline";
  const input = multiline
    ? h("textarea", { rows: "3", placeholder })
    : h("input", { type: "text", placeholder, ...PLAIN });
  const suggestions = option.kind === "duration" ? DURATIONS : /model/.test(option.name) && MODELS;
  const element = suggestions ? h("div", {}, input, suggest(input, suggestions)) : input;
  return {
    element,
    inputs: [input],
    read: () => (multiline ? input.value : input.value.trim()) || null,
    write: (value) => (input.value = value === null ? "" : String(value)),
    inherit: (text) => (input.placeholder = text || placeholder),
  };
}

/** @param {HTMLElement} input @param {string[]} values */
function suggest(input, values) {
  const id = `suggested-${(lists += 1)}`;
  input.setAttribute("list", id);
  return h("datalist", { id }, ...values.map((value) => h("option", { value })));
}

/**
 * One of several values; the first entry is none of them.
 *
 * @param {OptionDescription} option
 * @param {import("./option-field.js").FieldContext} context
 * @returns {Control}
 */
export function choiceControl(option, context) {
  const unset = UNSET[option.name] ?? "Not set";
  const none = h("option", { value: "" }, unset);
  const about = h("small", { class: "option-about" });
  const choices = choicesOf(option, context);
  const select = h("select", {}, none);
  for (const it of choices) select.append(entry(it));
  const describe = () => {
    const chosen = choices.find((it) => it.value === select.value);
    about.textContent = chosen?.description ?? "";
    about.classList.toggle("danger", select.value === "bypassPermissions");
  };
  select.addEventListener("change", describe);
  return {
    element: h("div", {}, select, about),
    inputs: [select],
    read: () => select.value || null,
    write: (value) => {
      const text = value === null ? "" : String(value);
      // A newer agent may have values that this server does not list.
      if (![...select.options].some((it) => it.value === text))
        select.append(entry({ value: text }));
      select.value = text;
      describe();
    },
    inherit: (text) => fill(none, text || unset),
  };
}

/** @param {Choice} choice */
function entry({ value, label, disabled }) {
  return h("option", { value, disabled }, label ?? value);
}

/**
 * @param {OptionDescription} option
 * @param {import("./option-field.js").FieldContext} context
 * @returns {Choice[]}
 */
function choicesOf(option, context) {
  const choices = option.choices ?? [];
  if (option.kind === "agent") return agentChoices(choices, context.agents ?? []);
  if (option.name !== "mode") return choices.map((value) => ({ value, label: CHOICES[value] }));
  const known = new Map(context.me.modes.map((it) => [it.id, it]));
  return choices.map((value) => {
    const { label, description } = known.get(value) ?? { label: value, description: "" };
    const refusal = value === "bypassPermissions" && bypassRefusal(context);
    return refusal
      ? { value, label: `${label} (${refusal})`, disabled: true }
      : { value, label, description };
  });
}

/**
 * Agents that are installed come first; the others say how to install them.
 *
 * @param {string[]} names
 * @param {import("../gateway.js").Agent[]} agents
 * @returns {Choice[]}
 */
function agentChoices(names, agents) {
  const known = new Map(agents.map((it) => [it.name, it]));
  const installed = (/** @type {string} */ name) => known.get(name)?.installed ?? true;
  const sorted = [...names.filter(installed), ...names.filter((name) => !installed(name))];
  return sorted.map((value) => {
    const agent = known.get(value);
    if (!agent) return { value };
    return agent.installed
      ? {
          value,
          label: agent.title,
          description: agent.sign_in ? `To sign in, ${agent.sign_in}.` : "",
        }
      : { value, label: `${agent.title} (not installed)`, description: agent.install ?? "" };
  });
}

/** @param {import("./option-field.js").FieldContext} context */
function bypassRefusal({ bypassAllowed, me }) {
  if (!bypassAllowed) return "not allowed on this server";
  return me.role === "admin" ? "" : "needs the role admin";
}

/** A whole number, or dollars. @param {OptionDescription} option @returns {Control} */
export function numberControl(option) {
  const dollars = option.kind === "dollars";
  const placeholder = "No limit";
  const input = h("input", {
    type: "text",
    inputmode: dollars ? "decimal" : "numeric",
    placeholder,
    ...PLAIN,
  });
  return {
    element: dollars ? h("div", { class: "dollars" }, h("span", {}, "$"), input) : input,
    inputs: [input],
    read: () => {
      const text = input.value.trim().replace(/^\$\s*/, "");
      return text ? readNumber(text, option) : null;
    },
    write: (value) => (input.value = value === null ? "" : String(value)),
    inherit: (text) => (input.placeholder = text || placeholder),
  };
}

/** @param {string} text @param {OptionDescription} option */
function readNumber(text, option) {
  const dollars = option.kind === "dollars";
  const valid = dollars ? /^\d+([.,]\d+)?$/ : /^\d+$/;
  const number = Number(text.replace(",", "."));
  if (!valid.test(text) || !Number.isFinite(number))
    throw new Error(dollars ? "This must be a sum such as 2.50." : "This must be a whole number.");
  const { min, max } = option;
  if (typeof min === "number" && number < min) throw new Error(`This must be at least ${min}.`);
  if (typeof max === "number" && number > max) throw new Error(`This must be at most ${max}.`);
  return number;
}

/**
 * A switch. Until it is touched it has no value, and shows what applies then.
 *
 * @param {OptionDescription} option
 * @returns {Control}
 */
export function switchControl(option) {
  const initial = option.default === true;
  const input = h("input", { type: "checkbox", role: "switch", class: "switch" });
  const state = h("span", { class: "soft" });
  /** @type {boolean | null} */ let value = null;
  let inherited = "";
  const show = () => {
    input.checked = value ?? (inherited ? inherited.endsWith(" on") : initial);
    const text = input.checked ? "On" : "Off";
    state.textContent = value === null && inherited ? `${text} (${inherited})` : text;
  };
  input.addEventListener("change", () => {
    value = input.checked;
    show();
  });
  show();
  return {
    element: h("div", { class: "switch-row" }, input, state),
    inputs: [input],
    read: () => (value === initial && !inherited ? null : value),
    write: (to) => {
      value = typeof to === "boolean" ? to : null;
      show();
    },
    inherit: (text) => {
      inherited = text;
      show();
    },
  };
}
