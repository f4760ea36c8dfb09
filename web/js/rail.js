/**
 * All sessions, in the order a person cares: those that need them, those that run, the rest.
 *
 * @module
 */

import { fill, h, icon, iconButton, PATHS } from "./elements.js";
import { seen } from "./preferences.js";
import { base, since } from "./words.js";

/** @typedef {import("./gateway.js").Session} Session */

const TIERS = /** @type {const} */ ([["needs_you", "Needs you"], ["running", "Running"], ["idle", "Idle"]]);

export class Rail {
  /** @param {{ begin: () => void, switcher: () => void, settings: () => void, help: () => void }} desk */
  constructor(desk) {
    this.list = h("nav", { class: "rail-list", "aria-label": "Sessions" });
    this.link = h("span", { class: "link" });
    this.usage = h("a", { class: "icon-button", href: "#/usage", "aria-label": "Usage", title: "Usage" }, icon(PATHS.chart));
    this.element = h("aside", { class: "rail", id: "rail", "aria-label": "All sessions" },
      h("div", { class: "rail-head" }, h("a", { class: "brand", href: "#/" }, h("img", { src: "/icon.svg", alt: "" }), "Towpath"),
        iconButton("Find a session (Ctrl+K)", PATHS.search, desk.switcher), iconButton("New session", PATHS.add, desk.begin)),
      this.list,
      h("div", { class: "rail-foot" }, this.link, this.usage, iconButton("Settings", PATHS.gear, desk.settings), iconButton("Keys and help (?)", PATHS.help, desk.help)));
  }

  /** @param {Session[]} sessions @param {string} current */
  show(sessions, current) {
    const now = Date.now();
    const focused = /** @type {HTMLElement | null} */ (this.list.contains(document.activeElement) ? document.activeElement : null)?.dataset.session;
    fill(this.list, ...TIERS.flatMap(([tier, name]) => {
      const some = sessions.filter((it) => it.tier === tier);
      if (!some.length) return [];
      return [
        h("h2", { class: `tier ${tier === "needs_you" ? "needs" : ""}`, id: `tier-${tier}` }, name, h("span", {}, some.length)),
        h("ul", { "aria-labelledby": `tier-${tier}` }, ...some.map((session) => h("li", {}, row(session, session.id === current, now)))),
      ];
    }), !sessions.length && h("p", { class: "rail-none" }, "No sessions yet."));
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`[data-session="${focused}"]`))?.focus();
  }

  /** @param {import("./follower.js").Line} line */
  showLine(line) {
    const words = { live: "Connected", connecting: "Connecting", lost: "Not connected" }[line.is];
    fill(this.link, h("span", { class: `lamp ${line.is === "live" ? "live" : line.is === "lost" ? "lost" : "idle"}` }), words);
  }
}

/** @param {Session} session @param {boolean} current @param {number} now */
function row(session, current, now) {
  const unread = !current && session.last > seen(session.id);
  const name = session.title || "New session";
  return h("a", { class: `row ${unread ? "unread" : ""}`, href: `#/s/${session.id}`, "aria-current": current ? "page" : undefined, "data-session": session.id, title: session.cwd },
    h("span", { class: `lamp ${dot(session)}` }), h("span", { class: "name" }, name, unread && h("span", { class: "unseen" }, " (unread)")), h("span", { class: "since" }, since(session.active, now)),
    h("span", { class: "place" }, [base(session.cwd), session.branch, session.requests > 0 && `${session.requests} waiting`].filter(Boolean).join(" · ")));
}

/** @param {Session} session */
export function dot(session) {
  if (session.tier === "needs_you") return "needs";
  if (session.tier === "running") return "running";
  return session.status === "failed" || session.status === "dead" ? "failed" : "idle";
}
