/**
 * A list of texts or directories: the entries, and a field that adds to them.
 *
 * @module
 */

import { callApi } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { visibleLine } from "../ui/visible-text.js";
import { PLAIN } from "./controls.js";

/** What an entry looks like. */
const EXAMPLES = /** @type {Record<string, string>} */ ({
  allowed_tools: "Bash(git:*)",
  disallowed_tools: "WebFetch",
  extra_directories: "/path/of/a/directory",
  copy_to: "/path/of/a/directory",
});

let lists = 0;

/**
 * @param {import("../gateway.js").OptionResponse} option
 * @returns {import("./option-field.js").Control}
 */
export function listControl(option) {
  const directories = option.kind === "directories";
  /** @type {string[]} */ let entries = [];
  const placeholder = EXAMPLES[option.name];
  const input = h("input", { type: "text", placeholder, ...PLAIN });
  const list = h("ul", { class: "entries", hidden: true });
  const inherited = h("p", { class: "option-inherited", hidden: true });

  const changed = () => element.dispatchEvent(new Event("input", { bubbles: true }));
  const show = () => {
    list.hidden = entries.length === 0;
    fill(list, ...entries.map(row));
  };
  const row = (/** @type {string} */ text, /** @type {number} */ at) =>
    h(
      "li",
      {},
      h("code", {}, visibleLine(text)),
      iconButton(`Remove ${visibleLine(text)}`, PATHS.close, () => {
        entries.splice(at, 1);
        show();
        changed();
        // The focus stays in the list, at the entry that took the place.
        const next = list.querySelectorAll("button")[Math.min(at, entries.length - 1)];
        (next ?? input).focus();
      }),
    );
  /** Adds every line of a text. @param {string} text */
  const add = (text) => {
    const lines = text.split(/[\r\n]+/).map((it) => it.trim());
    const fresh = lines.filter((it, at) => it && !entries.includes(it) && lines.indexOf(it) === at);
    entries.push(...fresh);
    input.value = "";
    show();
    list.scrollTop = list.scrollHeight;
    changed();
  };
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !input.value.trim()) return;
    event.preventDefault();
    add(input.value);
  });
  input.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text") ?? "";
    if (!/\n/.test(text.trim())) return;
    event.preventDefault();
    add(text);
  });
  const element = h(
    "div",
    { class: "list-control" },
    list,
    h(
      "div",
      { class: "add-entry" },
      input,
      directories && completeDirectories(input),
      h(
        "button",
        {
          type: "button",
          class: "button",
          onclick: () => {
            add(input.value);
            input.focus();
          },
        },
        "Add",
      ),
    ),
    inherited,
  );
  return {
    element,
    inputs: [input],
    read: () => {
      // Text that was typed and not added is meant too.
      const all = [...new Set([...entries, input.value.trim()])].filter(Boolean);
      return all.length ? all : null;
    },
    write: (value) => {
      entries = Array.isArray(value) ? value.map(String) : [];
      input.value = "";
      show();
    },
    inherit: (text) => {
      inherited.textContent = text;
      inherited.hidden = !text;
    },
  };
}

/** Suggests directories below the one that is typed. @param {HTMLInputElement} input */
function completeDirectories(input) {
  const suggestions = h("datalist", { id: `directories-${(lists += 1)}` });
  input.setAttribute("list", suggestions.id);
  let listed = "";
  const load = async () => {
    const under = input.value.slice(0, input.value.lastIndexOf("/")) || "";
    if (under === listed && suggestions.firstChild) return;
    listed = under;
    const query = under ? `?under=${encodeURIComponent(under)}` : "";
    const listing = await callApi("GET", `/directories${query}`).catch(() => undefined);
    const found = /** @type {import("../gateway.js").DirectoryEntry[]} */ (
      listing?.directories ?? []
    );
    fill(suggestions, ...found.slice(0, 60).map((it) => h("option", { value: it.path })));
  };
  input.addEventListener("input", () => void load());
  input.addEventListener("focus", () => void load());
  return suggestions;
}
