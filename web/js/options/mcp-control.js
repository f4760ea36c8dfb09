/**
 * MCP servers: JSON as in `.mcp.json`, checked while it is edited, or the path of a file with it.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { plural } from "../ui/format.js";
import { visibleLine } from "../ui/visible-text.js";
import { PLAIN } from "./controls.js";

const EXAMPLE = '{ "mcpServers": { "issues": { "command": "issues-mcp" } } }';
/** More names than these are counted. */
const MAX_NAMES = 6;

/** @returns {import("./option-field.js").Control} */
export function mcpControl() {
  const input = h("textarea", { rows: "4", class: "mono", placeholder: EXAMPLE, ...PLAIN });
  const state = h("p", { class: "option-about", role: "status" });
  const check = () => {
    try {
      state.textContent = describe(parse(input.value));
      state.classList.remove("danger");
    } catch (problem) {
      state.textContent = /** @type {Error} */ (problem).message;
      state.classList.add("danger");
    }
  };
  input.addEventListener("input", check);
  return {
    element: h("div", {}, input, state),
    inputs: [input],
    read: () => parse(input.value),
    write: (value) => {
      input.value =
        value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);
      check();
    },
    inherit: (text) => (input.placeholder = text || EXAMPLE),
  };
}

/** @param {string} text */
function parse(text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  // Anything else is the path of a file.
  if (!/^[{[]/.test(trimmed)) return trimmed;
  let value;
  try {
    value = JSON.parse(trimmed);
  } catch (problem) {
    throw new Error(`This is not JSON: ${place(trimmed, /** @type {Error} */ (problem).message)}.`);
  }
  const servers = value.mcpServers;
  if (!servers || typeof servers !== "object" || Array.isArray(servers))
    throw new Error("An object “mcpServers” is missing.");
  for (const [name, server] of Object.entries(servers))
    if (!server || typeof server !== "object" || !("command" in server || "url" in server))
      throw new Error(`The server “${visibleLine(name)}” has neither a command nor a URL.`);
  return value;
}

/** Names the line of an error, which browsers give as an offset. @param {string} text @param {string} message */
function place(text, message) {
  const offset = /position (\d+)/.exec(message)?.[1];
  if (!offset) return message;
  const line = text.slice(0, Number(offset)).split("\n").length;
  return `${message.split(" in JSON")[0]} in line ${line}`;
}

/** @param {any} value */
function describe(value) {
  if (value === null) return "";
  if (typeof value === "string") return `A file on the server: ${visibleLine(value)}`;
  const names = Object.keys(value.mcpServers).map(visibleLine);
  const more = names.length > MAX_NAMES ? `, and ${names.length - MAX_NAMES} more` : "";
  return `${plural(names.length, "server")}: ${names.slice(0, MAX_NAMES).join(", ")}${more}`;
}
