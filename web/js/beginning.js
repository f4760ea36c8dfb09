/**
 * Beginning a session: where, with which model and mode, and with which first words.
 *
 * @module
 */

import { ask, newId } from "./api.js";
import { fill, h } from "./elements.js";
import { openSheet } from "./sheets.js";
import { MODES } from "./words.js";

/** @param {import("./gateway.js").Me} me @param {import("./gateway.js").Session[]} sessions */
export function beginSession(me, sessions) {
  const recent = [...new Set(sessions.sort((a, b) => b.active - a.active).map((it) => it.cwd))];
  const where = h("input", { type: "text", value: recent[0] ?? me.roots[0] ?? "", required: true, spellcheck: "false", autocapitalize: "off", autocomplete: "off", role: "combobox", "aria-expanded": "true", "aria-controls": "directories" });
  const list = h("ul", { class: "suggestions", id: "directories", role: "listbox", "aria-label": "Directories" });
  const model = h("input", { type: "text", placeholder: "The agent's own choice", list: "models", autocomplete: "off" });
  const mode = h("select", {}, ...MODES.map((it) => h("option", { value: it.value }, it.name)));
  const prompt = h("textarea", { rows: "4", placeholder: "What shall it do? May stay empty." });
  const told = h("p", { class: "complaint", role: "alert" });
  const button = h("button", { type: "submit", class: "button primary", form: "begin" }, "Begin");
  // One id for the dialog's whole life: pressing twice, or again after a lost answer, makes one session.
  const ids = { session: newId(), prompt: newId() };
  const form = h("form", { id: "begin", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    const text = prompt.value.trim();
    try {
      const { id } = await ask("POST", "/sessions", { id: ids.session, cwd: where.value.trim(), model: model.value.trim() || undefined, mode: mode.value === "default" ? undefined : mode.value, prompt: text ? { id: ids.prompt, text } : undefined });
      dialog.close();
      location.hash = `#/s/${id}`;
    } catch (problem) {
      told.textContent = /** @type {Error} */ (problem).message;
    } finally {
      button.disabled = false;
    }
  } },
    h("label", { class: "field" }, h("span", {}, "Directory"), where), list,
    h("div", { class: "two" },
      h("label", { class: "field" }, h("span", {}, "Permissions"), mode),
      h("label", { class: "field" }, h("span", {}, "Model"), model, h("datalist", { id: "models" }, ...["opus", "sonnet", "haiku"].map((value) => h("option", { value }))))),
    h("label", { class: "field" }, h("span", {}, "First prompt"), prompt), told);
  const suggest = async (/** @type {string} */ under) => {
    const told = await ask("GET", `/directories?under=${encodeURIComponent(under)}`).catch(() => undefined);
    const up = told?.parent ? [{ path: told.parent, name: ".." }] : [];
    const some = [...up, ...(told?.directories ?? [])].slice(0, 60);
    const choose = (/** @type {string} */ path) => {
      where.value = path;
      void suggest(path);
    };
    fill(list, ...some.map((/** @type {import("./gateway.js").Directory} */ it) => h("li", { role: "option", "aria-selected": "false", tabindex: "0", onclick: () => choose(it.path),
      onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && (event.preventDefault(), choose(it.path)) }, it.name === ".." ? "↰ .." : it.name, it.project && h("small", {}, "  project"))));
    list.hidden = !some.length;
  };
  const dialog = openSheet({ title: "New session", body: [form], foot: [button] });
  where.addEventListener("change", () => void suggest(where.value.trim()));
  void suggest(where.value);
  prompt.focus();
}
