/**
 * Quick switcher: finds a session by its title or directory.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";
import { statusDot } from "../sidebar.js";
import { present } from "./dialogs.js";
import { baseName } from "../ui/format.js";

/** @param {import("../gateway.js").Session[]} sessions @param {string} current */
export function openSwitcher(sessions, current) {
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
    { class: "switcher top", "aria-label": "Go to a session" },
    field,
    list,
  );
  /** @type {typeof sessions} */ let found = [];
  let chosen = 0;
  const go = () => {
    if (!found[chosen]) return;
    location.hash = `#/s/${found[chosen].id}`;
    dialog.close();
  };
  const draw = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = sessions.filter((it) =>
      words.every((word) => `${it.title ?? ""} ${it.cwd}`.toLowerCase().includes(word)),
    );
    chosen = Math.max(0, Math.min(chosen, found.length - 1));
    fill(
      list,
      ...(found.length
        ? found.map((it, n) =>
            h(
              "li",
              {
                role: "option",
                id: `switch-${n}`,
                "aria-selected": String(n === chosen),
                onclick: () => {
                  chosen = n;
                  go();
                },
              },
              h("span", { class: `status-dot ${statusDot(it)}` }),
              h(
                "span",
                {},
                it.title || "New session",
                it.id === current && h("small", {}, " · current"),
              ),
              h("small", {}, baseName(it.cwd)),
            ),
          )
        : [h("li", { class: "none" }, "No matching sessions")]),
    );
    field.setAttribute("aria-activedescendant", `switch-${chosen}`);
    list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  };
  field.addEventListener("input", () => {
    chosen = 0;
    draw();
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) chosen = (chosen + step + found.length) % found.length;
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
