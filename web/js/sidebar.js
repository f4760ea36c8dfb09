/**
 * The list of all sessions: those that need the user, those that are pinned, the rest by project, and
 * those that the CLI ran without this server. A field searches in all of them.
 *
 * @module
 */

import { fill, h, icon, iconButton, PATHS } from "./ui/elements.js";
import { preferences, seen } from "./preferences.js";
import { COST_DAYS, Projects } from "./sessions/projects.js";
import { baseName, clock, dollars, plural, shortAge } from "./ui/format.js";

/** @typedef {import("./gateway.js").Session} Session */

export class Sidebar {
  /**
   * @param {{ newSession: (cwd?: string) => void, settings: () => void, help: () => void, sessions: () => Session[], go: (address: string) => void, leaveSearch: () => void }} actions
   */
  constructor(actions) {
    this.actions = actions;
    this.current = "";
    /** @type {Promise<import("./sessions/other-sessions.js").OtherSessions> | undefined} */
    this.others = undefined;
    /** @type {Promise<import("./sessions/session-search.js").SessionSearch> | undefined} */
    this.search = undefined;
    this.own = h("div", {});
    this.archive = false;
    /** @type {Session[]} */ this.sessions = [];
    this.projects = new Projects(() => this.show(this.sessions, this.current));
    this.othersButton = h(
      "button",
      {
        type: "button",
        class: "tier",
        "aria-expanded": "false",
        onclick: () => void this.toggleOthers(!preferences.others),
      },
      icon(PATHS.chevron),
      "Other sessions",
    );
    this.othersPlace = h("section", { "aria-label": "Other sessions" }, this.othersButton);
    this.list = h(
      "nav",
      { class: "sidebar-list", "aria-label": "Sessions" },
      this.own,
      this.othersPlace,
    );
    this.results = h("div", { class: "sidebar-list", hidden: true });
    this.field = h("input", {
      type: "search",
      class: "input",
      placeholder: "Search all sessions",
      "aria-label": "Search all sessions",
      title: "Search all sessions (s)",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: "500",
      onfocus: () => void this.loadSearch(),
      oninput: () => this.#searching(this.field.value.trim() !== ""),
    });
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
        iconButton("New session", PATHS.add, () => actions.newSession()),
      ),
      h("div", { class: "sidebar-search", role: "search" }, this.field),
      this.list,
      this.results,
      h(
        "div",
        { class: "sidebar-foot" },
        this.link,
        this.usage,
        iconButton("Settings", PATHS.gear, actions.settings),
        iconButton("Keyboard shortcuts (?)", PATHS.help, actions.help),
      ),
    );
    if (preferences.others) void this.toggleOthers(true);
  }

  /** The sessions of the CLI. */
  loadOthers() {
    this.others ??= import("./sessions/other-sessions.js").then(
      (it) => new it.OtherSessions(this.othersPlace, this.list),
    );
    return this.others;
  }

  /** @param {boolean} open */
  async toggleOthers(open) {
    preferences.others = open;
    this.othersButton.setAttribute("aria-expanded", String(open));
    const others = await this.loadOthers();
    others.toggle(preferences.others);
    others.mark(this.current);
  }

  loadSearch() {
    this.search ??= Promise.all([import("./sessions/session-search.js"), this.loadOthers()]).then(
      ([{ SessionSearch }, others]) => {
        const { sessions, go } = this.actions;
        const leave = (/** @type {boolean} */ byKey) => {
          this.#searching(false);
          if (byKey) this.actions.leaveSearch();
        };
        const search = new SessionSearch(this.field, this.results, { sessions, others, go, leave });
        search.update();
        return search;
      },
    );
    return this.search;
  }

  /** Searches for a text, or lets the user enter one. @param {string} [text] */
  startSearch(text) {
    if (text !== undefined) this.field.value = text;
    this.#searching(this.field.value.trim() !== "");
    this.field.focus();
    this.field.select();
    void this.loadSearch().then((it) => it.update());
  }

  /** What was found is in the place of the list. @param {boolean} on */
  #searching(on) {
    this.list.hidden = on;
    this.results.hidden = !on;
  }

  /** @param {Session[]} sessions @param {string} current a session, or a session of the CLI */
  show(sessions, current) {
    this.current = current;
    this.sessions = sessions;
    void this.others?.then((it) => it.mark(current));
    this.projects.refresh(sessions);
    const focused = /** @type {HTMLElement | null} */ (
      this.own.contains(document.activeElement) ? document.activeElement : null
    )?.dataset.session;
    const needs = sessions.filter((it) => it.tier === "needs_you");
    const others = sessions.filter((it) => it.tier !== "needs_you");
    const archived = others.filter((it) => it.archived);
    fill(
      this.own,
      ...this.#section("needs_you", "Needs you", needs),
      ...this.#section(
        "pinned",
        "Pinned",
        others.filter((it) => it.pinned && !it.archived),
      ),
      ...this.projects
        .group(others.filter((it) => !it.pinned && !it.archived))
        .flatMap((it, number) => this.#project(it, number)),
      ...this.#archived(archived),
      !sessions.length && h("p", { class: "sidebar-none" }, "No sessions yet."),
    );
    if (focused)
      /** @type {HTMLElement | null} */ (
        this.own.querySelector(`[data-session="${focused}"]`)
      )?.focus();
  }

  /** @param {string} id @param {string} name @param {Session[]} sessions */
  #section(id, name, sessions) {
    if (!sessions.length) return [];
    const heading = h(
      "h2",
      { class: `tier ${id === "needs_you" ? "needs" : ""}`, id: `tier-${id}` },
      name,
      h("span", {}, sessions.length),
    );
    return [heading, this.#rows(`tier-${id}`, sessions, (it) => baseName(it.cwd))];
  }

  /** @param {ReturnType<Projects["group"]>[number]} project @param {number} number */
  #project({ key, name, sessions }, number) {
    const states = sessions.map((it) => this.projects.directories.get(it.cwd));
    const main = states.find((it) => it && !it.worktree) ?? states.find((it) => it);
    const changes = main?.changes ?? 0;
    const cost = sessions.reduce((sum, it) => sum + (this.projects.costs.get(it.id) ?? 0), 0);
    const id = `project-${number}`;
    /** What a row says beside its title: only what the heading does not. @param {Session} session */
    const place = (session) => {
      const state = this.projects.directories.get(session.cwd);
      if (state?.worktree) return state.branch ?? baseName(session.cwd);
      return !state && sessions.some((it) => it.cwd !== session.cwd) ? baseName(session.cwd) : "";
    };
    return [
      h(
        "div",
        { class: "project", title: main?.repository ? main.cwd : key },
        h(
          "h2",
          { class: "tier", id },
          h("bdi", { class: "project-name" }, name),
          main?.branch && h("span", { class: "project-branch" }, main.branch),
          changes > 0 &&
            h(
              "span",
              { class: "project-changes", title: `${plural(changes, "change")} not committed` },
              `±${changes > 999 ? "999+" : changes}`,
            ),
          cost > 0 &&
            h(
              "span",
              { class: "project-cost", title: `In the last ${COST_DAYS} days` },
              dollars(cost),
            ),
        ),
        iconButton(`New session in ${name}`, PATHS.add, () =>
          this.actions.newSession(main?.cwd ?? sessions[0].cwd),
        ),
      ),
      this.#rows(id, sessions, place),
    ];
  }

  /** @param {Session[]} sessions */
  #archived(sessions) {
    if (!sessions.length) return [];
    const toggle = h(
      "button",
      {
        type: "button",
        class: "archive-toggle",
        "aria-expanded": String(this.archive),
        id: "tier-archived",
        onclick: () => {
          this.archive = !this.archive;
          this.show(this.sessions, this.current);
          /** @type {HTMLElement | null} */ (this.own.querySelector("#tier-archived"))?.focus();
        },
      },
      icon(PATHS.chevron),
      `Archived (${sessions.length})`,
    );
    return [
      toggle,
      this.archive && this.#rows("tier-archived", sessions, (it) => baseName(it.cwd)),
    ];
  }

  /** @param {string} label @param {Session[]} sessions @param {(session: Session) => string} place */
  #rows(label, sessions, place) {
    const now = Date.now();
    return h(
      "ul",
      { "aria-labelledby": label },
      ...sessions.map((it) => h("li", {}, row(it, it.id === this.current, now, place(it)))),
    );
  }

  /** @param {import("./connection.js").ConnectionState} state */
  showConnection(state) {
    const text = { live: "Connected", connecting: "Connecting", lost: "Not connected" }[state.kind];
    const dot = { live: "live", connecting: "idle", lost: "lost" }[state.kind];
    fill(this.link, h("span", { class: `status-dot ${dot}` }), text);
  }
}

/** @param {Session} session @param {boolean} current @param {number} now @param {string} where */
function row(session, current, now, where) {
  const unread = !current && session.last > seen(session.id);
  const name = session.title || "New session";
  // That its machine is away is said in fewer words than those of the problem.
  const away = session.worker && session.worker_away ? awayText(session) : "";
  const problem = away || session.problem;
  const place = [
    where,
    session.worker,
    session.requests > 0 && `${session.requests} waiting`,
  ].filter(Boolean);
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
    (problem || place.length > 0 || session.agent.acp) &&
      h(
        "span",
        { class: problem ? "place problem" : "place", title: session.problem ?? undefined },
        session.agent.acp && agentMark(session),
        problem || place.join(" · "),
      ),
  );
}

/** `w1 away since 14:02`. @param {Session} session */
export function awayText({ worker, worker_away_since: since }) {
  return `${worker} away${since ? ` since ${clock(since)}` : ""}`;
}

/** The agent's name with its colour. @param {Session} session */
function agentMark({ agent }) {
  const mark = h("span", { class: "agent-name" }, agent.title);
  if (agent.color) mark.style.setProperty("--agent", agent.color);
  return mark;
}

/** @param {Session} session */
export function statusDot(session) {
  if (session.problem) return "failed";
  if (session.tier === "needs_you") return "needs";
  if (session.tier === "running") return "running";
  return session.status === "failed" || session.status === "dead" ? "failed" : "idle";
}
