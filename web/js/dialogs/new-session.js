/**
 * The dialog that creates a session.
 *
 * @module
 */

import { callApi, newId } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";

/** @param {import("../gateway.js").Me} me @param {import("../gateway.js").Session[]} sessions */
export function openNewSession(me, sessions) {
  const recent = [...new Set(sessions.sort((a, b) => b.active - a.active).map((it) => it.cwd))];
  const where = h("input", {
    type: "text",
    value: recent[0] ?? me.roots[0] ?? "",
    required: true,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "directories",
  });
  const list = h("ul", {
    class: "suggestions",
    id: "directories",
    role: "listbox",
    "aria-label": "Directories",
  });
  const model = h("input", {
    type: "text",
    placeholder: "Default",
    list: "models",
    autocomplete: "off",
  });
  const mode = h(
    "select",
    {},
    ...me.modes.map((it) =>
      h("option", { value: it.id, selected: it.id === "default", title: it.description }, it.label),
    ),
  );
  const prompt = h("textarea", { rows: "4", placeholder: "First message (optional)" });
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "new-session" },
    "Create",
  );
  // One id for the whole dialog: pressing twice, or again after a lost response, creates one session.
  const ids = { session: newId(), prompt: newId() };
  const form = h(
    "form",
    {
      id: "new-session",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        const text = prompt.value.trim();
        try {
          const { id } = await callApi("POST", "/sessions", {
            id: ids.session,
            cwd: where.value.trim(),
            model: model.value.trim() || undefined,
            mode: mode.value === "default" ? undefined : mode.value,
            prompt: text ? { id: ids.prompt, text } : undefined,
          });
          dialog.close();
          location.hash = `#/s/${id}`;
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
        } finally {
          button.disabled = false;
        }
      },
    },
    h("label", { class: "field" }, h("span", {}, "Directory"), where),
    list,
    h(
      "div",
      { class: "two" },
      h("label", { class: "field" }, h("span", {}, "Permission mode"), mode),
      h(
        "label",
        { class: "field" },
        h("span", {}, "Model"),
        model,
        h(
          "datalist",
          { id: "models" },
          ...["opus", "sonnet", "haiku"].map((value) => h("option", { value })),
        ),
      ),
    ),
    h("label", { class: "field" }, h("span", {}, "First message"), prompt),
    error,
  );
  const suggest = async (/** @type {string} */ under) => {
    const listing = await callApi("GET", `/directories?under=${encodeURIComponent(under)}`).catch(
      () => undefined,
    );
    const up = listing?.parent ? [{ path: listing.parent, name: ".." }] : [];
    const some = [...up, ...(listing?.directories ?? [])].slice(0, 60);
    const choose = (/** @type {string} */ path) => {
      where.value = path;
      void suggest(path);
    };
    fill(
      list,
      ...some.map((/** @type {import("../gateway.js").DirectoryEntry} */ it) =>
        h(
          "li",
          {
            role: "option",
            "aria-selected": "false",
            tabindex: "0",
            onclick: () => choose(it.path),
            onkeydown: (/** @type {KeyboardEvent} */ event) =>
              event.key === "Enter" && (event.preventDefault(), choose(it.path)),
          },
          it.name === ".." ? "↰ .." : it.name,
          it.repository && h("small", {}, " git"),
        ),
      ),
    );
    list.hidden = !some.length;
  };
  const dialog = openDialog({ title: "New session", body: [form], foot: [button] });
  where.addEventListener("change", () => void suggest(where.value.trim()));
  void suggest(where.value);
  prompt.focus();
}
