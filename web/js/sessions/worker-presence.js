/**
 * What a session shows of the machine of a fleet that runs it. Only loaded in a fleet.
 *
 * @module
 */

import { awayText } from "../sidebar.js";
import { fill, h } from "../ui/elements.js";

/** @typedef {import("../gateway.js").Session} Session */

/** Shows the name of the machine in the header. @param {HTMLElement} label @param {Session} session */
export function showWorker(label, session) {
  label.textContent = session.worker_away ? awayText(session) : (session.worker ?? "");
  label.hidden = !session.worker;
  label.title = session.worker_away
    ? "The machine that runs this session is not connected. What is shown is what it has sent."
    : "The machine that runs this session";
  label.classList.toggle("away", session.worker_away);
}

/**
 * Says that the machine is away, and offers another one, or why nothing can be sent to it.
 *
 * @param {import("../session-page.js").SessionPage} page
 * @param {Session} session
 */
export function showAbsence(page, session) {
  const { banner } = page;
  const kind = session.worker_away ? "away" : "problem";
  if (banner.dataset.kind !== kind) {
    banner.dataset.kind = kind;
    const open = () =>
      void import("../dialogs/move-session.js").then((it) => it.openMoveSession(page));
    const button = h("button", { type: "button", class: "button", onclick: open }, "Take over on…");
    fill(banner, h("span", {}), page.canDrive && session.worker_away ? button : "");
  }
  const place = /** @type {HTMLElement} */ (banner.firstChild);
  const text = session.problem ?? awayText(session);
  if (place.textContent !== text) place.textContent = text;
}
