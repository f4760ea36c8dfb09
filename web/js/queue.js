/**
 * Prompts that wait, as cards that can be changed, moved, taken back, or sent into the running turn.
 *
 * @module
 */

import { fill, h, iconButton, PATHS } from "./elements.js";
import { several } from "./words.js";

/** @typedef {import("./gateway.js").WaitingPrompt} WaitingPrompt */

/**
 * Shows them.
 *
 * @param {HTMLElement} list
 * @param {WaitingPrompt[]} queue
 * @param {boolean} busy
 * @param {{ edit: (prompt: WaitingPrompt) => void, remove: (prompt: WaitingPrompt) => void, move: (prompt: WaitingPrompt, before: string | undefined) => void, steer: (prompt: WaitingPrompt) => void }} desk
 */
export function showQueue(list, queue, busy, desk) {
  list.hidden = queue.length === 0;
  const free = queue.filter((prompt) => prompt.state === "queued");
  fill(list, ...queue.map((prompt) => {
    const held = prompt.state !== "queued";
    const here = free.indexOf(prompt);
    const pictures = prompt.images ? ` · ${several(prompt.images, "picture")}` : "";
    const row = h("li", { class: held ? "held" : undefined, "data-prompt": prompt.id, draggable: held ? undefined : "true" },
      h("span", { class: "kind" }, held ? "on its way" : prompt.delivery === "steer" ? "joins this turn" : "after this turn"),
      h("span", { class: "text", title: prompt.text }, prompt.text + pictures),
      !held && busy && prompt.delivery === "queue" && !prompt.images && h("button", { type: "button", class: "button quiet", onclick: () => desk.steer(prompt), title: "Send it into the running turn" }, "Steer"),
      !held && here > 0 && iconButton("Move up", PATHS.up, () => desk.move(prompt, free[here - 1].id)),
      !held && iconButton("Change", PATHS.edit, () => desk.edit(prompt)),
      !held && iconButton("Take back", PATHS.close, () => desk.remove(prompt)));
    row.addEventListener("dragstart", (event) => event.dataTransfer?.setData("text/towpath-prompt", prompt.id));
    row.addEventListener("dragover", (event) => event.preventDefault());
    row.addEventListener("drop", (event) => {
      const moved = free.find((it) => it.id === event.dataTransfer?.getData("text/towpath-prompt"));
      if (!moved || moved === prompt) return;
      event.preventDefault();
      // Dropped on a later one it goes behind it, on an earlier one in front.
      const later = free.indexOf(moved) < here;
      desk.move(moved, later ? free[here + 1]?.id : prompt.id);
    });
    return row;
  }));
}
