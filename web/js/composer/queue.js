/**
 * Queued prompts, which can be edited, moved, removed, or sent into the running turn.
 *
 * @module
 */

import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { plural } from "../ui/format.js";

/** @typedef {import("../gateway.js").QueuedPrompt} QueuedPrompt */

/**
 * Shows the queue.
 *
 * @param {HTMLElement} list
 * @param {QueuedPrompt[]} queue
 * @param {boolean} busy
 * @param {{ edit: (prompt: QueuedPrompt) => void, remove: (prompt: QueuedPrompt) => void, move: (prompt: QueuedPrompt, before: string | undefined) => void, steer: (prompt: QueuedPrompt) => void }} actions
 */
export function showQueue(list, queue, busy, actions) {
  list.hidden = queue.length === 0;
  const movable = queue.filter((prompt) => prompt.state === "queued");
  fill(
    list,
    ...queue.map((prompt) => {
      const sent = prompt.state !== "queued";
      const here = movable.indexOf(prompt);
      const images = prompt.images ? ` · ${plural(prompt.images, "image")}` : "";
      const row = h(
        "li",
        {
          class: sent ? "sent" : undefined,
          "data-prompt": prompt.id,
          draggable: sent ? undefined : "true",
        },
        h(
          "span",
          { class: "kind" },
          sent ? "sending" : prompt.delivery === "steer" ? "into this turn" : "after this turn",
        ),
        h("span", { class: "text", title: prompt.text }, prompt.text + images),
        !sent &&
          busy &&
          prompt.delivery === "queue" &&
          h(
            "button",
            {
              type: "button",
              class: "button quiet",
              onclick: () => actions.steer(prompt),
              title: "Send into the running turn",
            },
            "Send now",
          ),
        !sent &&
          here > 0 &&
          iconButton("Move up", PATHS.up, () => actions.move(prompt, movable[here - 1].id)),
        !sent && iconButton("Edit", PATHS.edit, () => actions.edit(prompt)),
        !sent && iconButton("Remove", PATHS.close, () => actions.remove(prompt)),
      );
      row.addEventListener("dragstart", (event) =>
        event.dataTransfer?.setData("text/towpath-prompt", prompt.id),
      );
      row.addEventListener("dragover", (event) => event.preventDefault());
      row.addEventListener("drop", (event) => {
        const moved = movable.find(
          (it) => it.id === event.dataTransfer?.getData("text/towpath-prompt"),
        );
        if (!moved || moved === prompt) return;
        event.preventDefault();
        // Dropped on a later prompt it goes after it, on an earlier one before it.
        const later = movable.indexOf(moved) < here;
        actions.move(moved, later ? movable[here + 1]?.id : prompt.id);
      });
      return row;
    }),
  );
}
