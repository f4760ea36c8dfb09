/**
 * How a person who looks elsewhere learns that an agent needs them: the title, the icon, a
 * notification, a chime.
 *
 * @module
 */

import { preferences } from "./preferences.js";

/** @typedef {import("./gateway.js").Session} Session */

export class Notices {
  /** @param {(id: string) => void} open */
  constructor(open) {
    this.open = open;
    this.needs = 0;
  }

  /** @param {Session[]} sessions */
  first(sessions) {
    this.badge(sessions.filter((it) => it.tier === "needs_you").length);
  }

  /** @param {Session | undefined} before @param {Session} now @param {string | undefined} current */
  changed(before, now, current) {
    const name = now.title || "A session";
    const watched = document.visibilityState === "visible" && document.hasFocus() && now.id === current;
    const asks = now.tier === "needs_you" && (before?.tier !== "needs_you" || now.requests > before.requests);
    const ended = before?.tier === "running" && now.tier === "idle";
    if (asks) {
      say("urgent", `${name} needs you`);
      if (!watched) this.#notify(now.id, `${name} needs you`, "It waits for your answer.");
    } else if (ended) {
      say("polite", `${name} is done`);
      if (!watched) this.#notify(now.id, `${name} is done`, now.status === "failed" ? "It ended with an error." : "");
    }
  }

  /** @param {number} needs @param {string} [title] */
  badge(needs, title) {
    document.title = `${needs ? `(${needs}) ` : ""}${title ? `${title} · ` : ""}Towpath`;
    if (needs === this.needs) return;
    this.needs = needs;
    document.querySelector("link[rel=icon]")?.setAttribute("href", needs ? "/icon-needs.svg" : "/icon.svg");
    const app = /** @type {any} */ (navigator);
    if (needs) app.setAppBadge?.(needs)?.catch?.(() => undefined);
    else app.clearAppBadge?.()?.catch?.(() => undefined);
  }

  /** @param {string} id @param {string} title @param {string} body */
  #notify(id, title, body) {
    if (preferences.sound) void import("./chime.js").then((it) => it.chime());
    if (!preferences.notify || !("Notification" in window) || Notification.permission !== "granted") return;
    // The tag keeps one notification a session, however often it asks.
    const notice = new Notification(title, { body, tag: `towpath-${id}`, icon: "/icon.svg" });
    notice.onclick = () => {
      window.focus();
      this.open(id);
      notice.close();
    };
  }
}

/** For who listens to the page. @param {"polite" | "urgent"} how @param {string} words */
function say(how, words) {
  const place = document.getElementById(how);
  if (place) place.textContent = words;
}
