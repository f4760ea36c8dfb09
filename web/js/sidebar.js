/**
 * The list of all sessions: those that need the user, those that run, the rest.
 *
 * @module
 */

import { fill, h, icon, iconButton, PATHS } from "./ui/elements.js";
import { seen } from "./preferences.js";
import { baseName, shortAge } from "./ui/format.js";

/** @typedef {import("./gateway.js").Session} Session */

const TIERS = /** @type {const} */ ([
  ["needs_you", "Needs you"],
  ["running", "Running"],
  ["idle", "Idle"],
]);

export class Sidebar {
  /** @param {{ newSession: () => void, switcher: () => void, settings: () => void, help: () => void }} actions */
  constructor(actions) {
    this.list = h("nav", { class: "sidebar-list", "aria-label": "Sessions" });
    this.link = h("span", { class: "link" });
    this.usage = h(
      "a",
      { class: "icon-button", href: "#/usage", "aria-label": "Usage", title: "Usage" },
      icon(PATHS.chart),
    );
    this.element = h(
      "aside",
      { class: "sidebar", id: "sidebar", "aria-label": "All sessions" },
      h(
        "div",
        { class: "sidebar-head" },
        h("a", { class: "brand", href: "#/" }, h("img", { src: "/icon.svg", alt: "" }), "Towpath"),
        iconButton("Find a session (Ctrl+K)", PATHS.search, actions.switcher),
        iconButton("New session", PATHS.add, actions.newSession),
      ),
      this.list,
      h(
        "div",
        { class: "sidebar-foot" },
        this.link,
        this.usage,
        iconButton("Settings", PATHS.gear, actions.settings),
        iconButton("Keyboard shortcuts (?)", PATHS.help, actions.help),
      ),
    );
  }

  /** @param {Session[]} sessions @param {string} current */
  show(sessions, current) {
    const now = Date.now();
    const focused = /** @type {HTMLElement | null} */ (
      this.list.contains(document.activeElement) ? document.activeElement : null
    )?.dataset.session;
    fill(
      this.list,
      ...TIERS.flatMap(([tier, name]) => {
        const some = sessions.filter((it) => it.tier === tier);
        if (!some.length) return [];
        return [
          h(
            "h2",
            { class: `tier ${tier === "needs_you" ? "needs" : ""}`, id: `tier-${tier}` },
            name,
            h("span", {}, some.length),
          ),
          h(
            "ul",
            { "aria-labelledby": `tier-${tier}` },
            ...some.map((session) => h("li", {}, row(session, session.id === current, now))),
          ),
        ];
      }),
      !sessions.length && h("p", { class: "sidebar-none" }, "No sessions yet."),
    );
    if (focused)
      /** @type {HTMLElement | null} */ (
        this.list.querySelector(`[data-session="${focused}"]`)
      )?.focus();
  }

  /** @param {import("./connection.js").ConnectionState} state */
  showConnection(state) {
    const text = { live: "Connected", connecting: "Connecting", lost: "Not connected" }[state.kind];
    const dot = { live: "live", connecting: "idle", lost: "lost" }[state.kind];
    fill(this.link, h("span", { class: `status-dot ${dot}` }), text);
  }
}

/** @param {Session} session @param {boolean} current @param {number} now */
function row(session, current, now) {
  const unread = !current && session.last > seen(session.id);
  const name = session.title || "New session";
  const { problem } = session;
  return h(
    "a",
    {
      class: `row ${unread ? "unread" : ""}`,
      href: `#/s/${session.id}`,
      "aria-current": current ? "page" : undefined,
      "data-session": session.id,
      title: session.cwd,
    },
    h("span", { class: `status-dot ${statusDot(session)}` }),
    h(
      "span",
      { class: "name" },
      name,
      unread && h("span", { class: "visually-hidden" }, " (unread)"),
    ),
    h("span", { class: "since" }, shortAge(session.active, now)),
    h(
      "span",
      { class: problem ? "place problem" : "place", title: problem },
      problem ||
        [baseName(session.cwd), session.requests > 0 && `${session.requests} waiting`]
          .filter(Boolean)
          .join(" · "),
    ),
  );
}

/** @param {Session} session */
export function statusDot(session) {
  if (session.problem) return "failed";
  if (session.tier === "needs_you") return "needs";
  if (session.tier === "running") return "running";
  return session.status === "failed" || session.status === "dead" ? "failed" : "idle";
}
