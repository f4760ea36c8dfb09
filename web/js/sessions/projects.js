/**
 * The projects of sessions: which directories belong to one repository, its branch, and what its sessions
 * have cost. Nothing is asked for while nothing happens.
 *
 * @module
 */

import { callApi } from "../api.js";

/** @typedef {import("../gateway.js").Session} Session */
/** @typedef {import("../gateway.js").ProjectDirectory} ProjectDirectory */

/** The least time between two questions, in milliseconds. */
const PAUSE = 10_000;
/** Costs change slowly, and adding them up takes the server a while. */
const COST_PAUSE = 300_000;
/** The costs of how many days are shown. */
export const COST_DAYS = 7;

export class Projects {
  /** @param {() => void} changed is called when something else is known */
  constructor(changed) {
    this.changed = changed;
    /** @type {Map<string, ProjectDirectory>} */ this.directories = new Map();
    /** Dollars by session. @type {Map<string, number>} */ this.costs = new Map();
    this.asked = "";
    this.askedAt = 0;
    this.costsAt = 0;
    /** @type {number | undefined} */ this.timer = undefined;
  }

  /** Asks again if something has happened in a session since the last time. @param {Session[]} sessions */
  refresh(sessions) {
    const state = sessions.map((it) => `${it.id} ${it.cwd} ${it.tier} ${it.turn}`).join("\n");
    if (state === this.asked || document.visibilityState !== "visible" || this.timer) return;
    const wait = this.askedAt + PAUSE - Date.now();
    this.timer = setTimeout(
      () => {
        this.timer = undefined;
        this.asked = state;
        this.askedAt = Date.now();
        void this.#ask();
      },
      Math.max(0, wait),
    );
  }

  async #ask() {
    const known = await callApi("GET", "/projects").catch(() => undefined);
    if (known?.directories) {
      this.directories = new Map(
        known.directories.map((/** @type {ProjectDirectory} */ it) => [it.cwd, it]),
      );
      this.changed();
    }
    if (Date.now() - this.costsAt < COST_PAUSE) return;
    this.costsAt = Date.now();
    const usage = await callApi("GET", `/usage?days=${COST_DAYS}`).catch(() => undefined);
    if (!usage?.days) return;
    this.costs = new Map();
    for (const { session, cost } of usage.days)
      this.costs.set(session, (this.costs.get(session) ?? 0) + (cost ?? 0));
    this.changed();
  }

  /**
   * Sessions by project, in the order in which they are given.
   *
   * @param {Session[]} sessions
   */
  group(sessions) {
    /** @type {Map<string, { key: string, name: string, sessions: Session[] }>} */
    const groups = new Map();
    for (const session of sessions) {
      const directory = this.directories.get(session.cwd);
      const key = directory?.project ?? session.cwd;
      const name = directory?.name ?? (session.cwd.replace(/\/+$/, "").split("/").pop() || key);
      const group = groups.get(key) ?? { key, name, sessions: [] };
      group.sessions.push(session);
      groups.set(key, group);
    }
    return [...groups.values()];
  }
}
