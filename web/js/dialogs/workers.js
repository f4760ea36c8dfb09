/**
 * The machines of a fleet: where sessions can run, how much each of them does, and which are away.
 *
 * @module
 */

import { callApi } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { clock } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { visibleLine } from "../ui/visible-text.js";
import { openDialog } from "./dialogs.js";

await loadStylesheet("/css/workers.css");

/** @typedef {import("../gateway.js").Worker} Worker */

/** How often the table is read again while it is open, in milliseconds. */
const REFRESH = 3000;

export function openWorkers() {
  const place = h("div", { class: "workers" }, h("p", {}, "…"));
  const load = async () => {
    try {
      /** @type {{ workers: Worker[], connection_lost_since?: number | null }} */
      const { workers, connection_lost_since: lost } = await callApi("GET", "/workers");
      fill(place, lost ? noConnection(lost) : "", workers.length > 0 ? table(workers) : none());
    } catch (problem) {
      fill(place, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  };
  const dialog = openDialog({ title: "Workers", address: "workers", class: "wide", body: [place] });
  const timer = setInterval(() => void load(), REFRESH);
  dialog.addEventListener("close", () => clearInterval(timer));
  void load();
}

/** @param {number} since */
function noConnection(since) {
  const text = `No connection to the fleet's servers since ${clock(since)}. What is shown may be old.`;
  return h("p", { class: "form-error", role: "alert" }, text);
}

function none() {
  return h("p", { class: "help-text" }, "No worker has connected to this fleet yet.");
}

/** @param {Worker[]} workers */
function table(workers) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...["Worker", "Slots in use", "Sessions"].map((it) => h("th", { scope: "col" }, it)),
      ),
    ),
    h("tbody", {}, ...workers.map(row)),
  );
}

/** @param {Worker} worker */
function row(worker) {
  const { name, pool, connected, slots, used, roots, sessions, version } = worker;
  return h(
    "tr",
    { "data-worker": name },
    h(
      "td",
      {},
      h(
        "div",
        {},
        h("span", { class: `status-dot ${connected ? "live" : "failed"}` }),
        h("strong", {}, visibleLine(name)),
        pool && h("span", { class: "tag" }, visibleLine(pool)),
      ),
      h(
        "small",
        {},
        presenceText(connected, worker.away_since),
        version && ` · Towpath ${visibleLine(version)}`,
      ),
      ...roots.map((it) => h("small", {}, h("code", {}, visibleLine(it)))),
    ),
    h("td", {}, connected ? `${used} of ${slots}` : "–"),
    h("td", {}, sessions),
  );
}

/**
 * @param {boolean} connected
 * @param {number | null} [since]
 */
export function presenceText(connected, since) {
  if (connected) return "connected";
  return since ? `away since ${clock(since)}` : "away";
}
