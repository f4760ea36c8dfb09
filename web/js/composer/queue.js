/**
 * Queued prompts, which can be edited, moved, removed, or sent into the running turn.
 *
 * @module
 */

import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { hasFailed, plural } from "../ui/format.js";

/** @typedef {import("../gateway.js").QueuedPrompt} QueuedPrompt */

/** Shows the queue of a session, and whether it is held. @param {import("../session-page.js").SessionPage} page */
export function showQueue(page) {
  const { actions, conversation } = page;
  if (!conversation) return;
  const { busy, queue, status } = conversation;
  const held = status.queue_held ?? false;
  const waitsFor = held
    ? "held"
    : hasFailed(status.phase)
      ? "waits for the agent"
      : "after this turn";
  showPrompts(
    page.queue,
    queue,
    { canSteer: busy && page.canSteer, waitsFor },
    {
      edit: (prompt) => page.composer.edit(prompt.id, prompt.text),
      remove: (prompt) => void actions.remove(prompt),
      move: (prompt, before) => void actions.move(prompt, before),
      steer: (prompt) => void actions.steer(prompt),
    },
  );
  const waiting = queue.filter((it) => it.state === "queued").length;
  const resume = page.canDrive && (() => void actions.resumeQueue(status.budget?.limit));
  showHeld(page.held, held ? waiting : 0, resume, status.budget);
}

/**
 * @param {HTMLElement} list
 * @param {QueuedPrompt[]} queue
 * @param {{ canSteer: boolean, waitsFor: string }} state whether prompts can join a running turn, and what they wait for
 * @param {{ edit: (prompt: QueuedPrompt) => void, remove: (prompt: QueuedPrompt) => void, move: (prompt: QueuedPrompt, before: string | undefined) => void, steer: (prompt: QueuedPrompt) => void }} actions
 */
function showPrompts(list, queue, { canSteer, waitsFor }, actions) {
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
          sent ? "sending" : prompt.delivery === "steer" ? "into this turn" : waitsFor,
        ),
        h("span", { class: "text", title: prompt.text }, prompt.text + images),
        !sent &&
          canSteer &&
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

/**
 * Shows that queued prompts wait since the user stopped a turn or a budget is spent, and a button that lets
 * them go on.
 *
 * @param {HTMLElement} place
 * @param {number} held how many wait
 * @param {false | (() => void)} resume if the user may do that
 * @param {import("../gateway.js").SpentBudget | null} [budget] the budget that is spent
 */
function showHeld(place, held, resume, budget) {
  place.hidden = held === 0;
  if (place.hidden) return;
  const wait = `${plural(held, "queued prompt")} ${held === 1 ? "waits" : "wait"}.`;
  // A key that is pressed by mistake must not cost anything.
  const key = budget ? {} : { "aria-keyshortcuts": "r" };
  fill(
    place,
    h("span", {}, budget ? h("b", {}, budget.question) : "Stopped.", ` ${wait}`),
    resume &&
      h(
        "button",
        { type: "button", class: "button", onclick: resume, ...key },
        budget ? "Go on" : "Resume",
        !budget && h("kbd", { "aria-hidden": "true" }, "r"),
      ),
  );
}
