/**
 * Quick switcher: finds a session by its title or directory.
 *
 * @module
 */

import { fill, h, icon, PATHS } from "../ui/elements.js";
import { statusDot } from "../sidebar.js";
import { present } from "./dialogs.js";
import { navigate } from "../ui/layers.js";
import { baseName } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await loadStylesheet("/css/switcher.css");

/**
 * @param {import("../gateway.js").Session[]} sessions
 * @param {string} current
 * @param {(text: string) => void} search in everything that was said
 */
export function openSwitcher(sessions, current, search) {
  const list = h("ul", { role: "listbox", id: "switch-list", "aria-label": "Sessions" });
  const field = h("input", {
    type: "text",
    placeholder: "Go to a session",
    "aria-label": "Go to a session",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "switch-list",
    autocomplete: "off",
  });
  const dialog = h(
    "dialog",
    { class: "switcher upper", "aria-label": "Go to a session" },
    field,
    list,
  );
  /** @type {typeof sessions} */ let found = [];
  let chosen = 0;
  const go = () => {
    dialog.close();
    if (found[chosen]) navigate(`#/s/${found[chosen].id}`);
    else search(field.value.trim());
  };
  const draw = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = sessions.filter((it) =>
      words.every((word) => `${it.title ?? ""} ${it.cwd}`.toLowerCase().includes(word)),
    );
    chosen = Math.max(0, Math.min(chosen, found.length));
    const option = (/** @type {number} */ n) => ({
      role: "option",
      id: `switch-${n}`,
      "aria-selected": String(n === chosen),
      onclick: () => {
        chosen = n;
        go();
      },
    });
    fill(
      list,
      ...found.map((it, n) =>
        h(
          "li",
          option(n),
          h("span", { class: `status-dot ${statusDot(it)}` }),
          h(
            "span",
            {},
            it.title || "New session",
            it.id === current && h("small", {}, " · current"),
          ),
          h("small", {}, baseName(it.cwd)),
        ),
      ),
      // The last one is always there.
      h(
        "li",
        { ...option(found.length), class: "search-all" },
        icon(PATHS.search),
        h("span", {}, "Search all sessions", words.length > 0 && ` for “${field.value.trim()}”`),
      ),
    );
    field.setAttribute("aria-activedescendant", `switch-${chosen}`);
    // Only the list is scrolled: the dialog may not have its place yet.
    const row = list.querySelector("[aria-selected=true]")?.getBoundingClientRect();
    const { top, bottom } = list.getBoundingClientRect();
    if (row) list.scrollTop += Math.max(0, row.bottom - bottom) || Math.min(0, row.top - top);
  };
  field.addEventListener("input", () => {
    chosen = 0;
    draw();
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const count = found.length + 1;
    if (step) chosen = (chosen + step + count) % count;
    else if (event.key === "Enter") go();
    else return;
    event.preventDefault();
    if (dialog.open) draw();
  });
  // Pressing Enter immediately goes to the previous session.
  chosen = sessions[0]?.id === current && sessions.length > 1 ? 1 : 0;
  present(dialog);
  draw();
  field.focus();
}
