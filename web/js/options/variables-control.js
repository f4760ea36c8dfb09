/**
 * Environment variables: a name and a value in each row. Values may be secrets, so they are readable
 * only while they are edited.
 *
 * @module
 */

import { h, iconButton, PATHS } from "../ui/elements.js";
import { PLAIN } from "./controls.js";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** @returns {import("./option-field.js").Control} */
export function variablesControl() {
  const rows = h("div", { class: "variables" });
  const inherited = h("p", { class: "option-inherited", hidden: true });
  const changed = () => element.dispatchEvent(new Event("input", { bubbles: true }));

  /** @param {string} name @param {string} value */
  const addRow = (name, value) => {
    const variable = h("input", { type: "text", placeholder: "NAME", class: "mono", ...PLAIN });
    const content = h("input", { type: "text", placeholder: "value", class: "masked", ...PLAIN });
    variable.setAttribute("aria-label", "Name of the variable");
    content.setAttribute("aria-label", "Value of the variable");
    variable.value = name;
    content.value = value;
    const row = h(
      "div",
      { class: "variable" },
      variable,
      content,
      iconButton("Remove this variable", PATHS.close, () => {
        const next = row.nextElementSibling ?? row.previousElementSibling;
        row.remove();
        changed();
        (next?.querySelector("input") ?? button).focus();
      }),
    );
    rows.append(row);
    return variable;
  };
  const button = h(
    "button",
    { type: "button", class: "button", onclick: () => addRow("", "").focus() },
    "Add a variable",
  );
  const element = h("div", { class: "list-control" }, rows, button, inherited);

  return {
    element,
    inputs: [button],
    group: true,
    read: () => {
      /** @type {Record<string, string>} */ const values = {};
      for (const row of rows.children) {
        const [name, value] = [...row.querySelectorAll("input")].map((it) => it.value);
        if (!name.trim() && !value) continue;
        if (!NAME.test(name.trim()))
          throw new Error(
            name.trim()
              ? `“${name.trim()}” is not a name: use letters, digits and underscores.`
              : "A value has no name.",
          );
        if (Object.hasOwn(values, name.trim())) throw new Error(`${name.trim()} is there twice.`);
        values[name.trim()] = value;
      }
      return Object.keys(values).length ? values : null;
    },
    write: (value) => {
      rows.replaceChildren();
      for (const [name, text] of Object.entries(value ?? {})) addRow(name, String(text));
    },
    inherit: (text) => {
      inherited.textContent = text;
      inherited.hidden = !text;
    },
  };
}
