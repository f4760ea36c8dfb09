/**
 * The agent's to-do list, in one line that can be opened.
 *
 * @module
 */

import { fill, h } from "../ui/elements.js";

/** @param {HTMLElement} place @param {import("../gateway.js").Todo[]} todos */
export function showTodos(place, todos) {
  const done = todos.filter((it) => it.state === "done").length;
  const open = place.querySelector("details")?.open;
  // A finished list is not worth showing.
  if (!todos.length || done === todos.length) {
    fill(place);
    return;
  }
  const current = todos.find((it) => it.state === "doing");
  const signs = { pending: "☐", doing: "◐", done: "☑" };
  fill(
    place,
    h(
      "details",
      { class: "todo-strip", open },
      h(
        "summary",
        {},
        h("span", {}, `☰ ${done} of ${todos.length}`),
        h("b", {}, current?.doing ?? current?.text ?? ""),
      ),
      h(
        "ul",
        {},
        ...todos.map((it) => h("li", { class: it.state }, `${signs[it.state]} ${it.text}`)),
      ),
    ),
  );
}
