/**
 * Tells a user who looks elsewhere that an agent needs them: title, icon, notification, sound. Tells
 * the server whether the page is visible: if no page is, it sends push messages instead.
 *
 * @module
 */

import { preferences } from "./preferences.js";

/** @typedef {import("./gateway.js").Session} Session */

/** The server forgets after three times this long that a page is visible. */
const REPORT_INTERVAL = 30_000;

export class Notifications {
  /** @param {(id: string) => void} open @param {import("./gateway.js").Me} me */
  constructor(open, me) {
    this.open = open;
    this.needs = 0;
    /** @type {import("./connection.js").Connection<any> | undefined} */
    this.connection = undefined;
    document.addEventListener("visibilitychange", () => this.#reportVisibility());
    setInterval(() => {
      if (document.visibilityState === "visible") this.#reportVisibility();
    }, REPORT_INTERVAL);
    if (preferences.push) void import("./push.js").then((it) => it.renewSubscription(me));
  }

  #reportVisibility() {
    const visible = document.visibilityState === "visible";
    this.connection?.send({ frame: "visibility", visible });
  }

  /** A connection was made. @param {Session[]} sessions */
  first(sessions) {
    this.badge(sessions.filter((it) => it.tier === "needs_you").length);
    this.#reportVisibility();
    this.#close((id) => sessions.find((it) => it.id === id)?.tier !== "needs_you");
  }

  /** @param {Session | undefined} before @param {Session} now @param {string | undefined} current */
  changed(before, now, current) {
    const name = now.title || "A session";
    const watched =
      document.visibilityState === "visible" && document.hasFocus() && now.id === current;
    const asks =
      now.tier === "needs_you" && (before?.tier !== "needs_you" || now.requests > before.requests);
    const ended = before?.tier === "running" && now.tier === "idle";
    if (before?.tier === "needs_you" && now.tier !== "needs_you")
      this.#close((id) => id === now.id);
    if (asks) {
      announce("urgent", `${name} needs you`);
      if (!watched) this.#notify(now.id, `${name} needs you`, "It is waiting for your answer.");
    } else if (ended) {
      announce("polite", `${name} is done`);
      if (!watched)
        this.#notify(
          now.id,
          `${name} is done`,
          now.status === "failed" ? "It ended with an error." : "",
        );
    }
  }

  /** @param {number} needs @param {string} [title] */
  badge(needs, title) {
    document.title = `${needs ? `(${needs}) ` : ""}${title ? `${title} · ` : ""}Towpath`;
    if (needs === this.needs) return;
    this.needs = needs;
    document
      .querySelector("link[rel=icon]")
      ?.setAttribute("href", needs ? "/icon-needs.svg" : "/icon.svg");
    const app = /** @type {any} */ (navigator);
    if (needs) app.setAppBadge?.(needs)?.catch?.(() => undefined);
    else app.clearAppBadge?.()?.catch?.(() => undefined);
  }

  /** @param {string} id @param {string} title @param {string} body */
  #notify(id, title, body) {
    if (preferences.sound) void import("./sound.js").then((it) => it.playSound());
    if (preferences.notify && mayNotify())
      void device().then((it) => it.notify(id, title, body, this.open));
  }

  /** @param {(session: string) => boolean} about */
  #close(about) {
    if (mayNotify()) void device().then((it) => it.closeNotifications(about));
  }
}

const mayNotify = () => "Notification" in window && Notification.permission === "granted";
const device = () => import("./device-notifications.js");

/** How the browser asks whether to install the page, if it offers that. @type {{ prompt?: any }} */
export const install = {};
addEventListener("beforeinstallprompt", (event) => {
  // The settings offer it, instead of a bar over the page.
  event.preventDefault();
  install.prompt = event;
});

/**
 * Announces something to screen readers.
 *
 * @param {"polite" | "urgent"} urgency
 * @param {string} text
 */
function announce(urgency, text) {
  const region = document.getElementById(urgency);
  if (region) region.textContent = text;
}
