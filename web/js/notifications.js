/**
 * Tells a user who looks elsewhere that an agent needs them: title, icon, notification, sound.
 *
 * @module
 */

import { preferences } from "./preferences.js";

/** @typedef {import("./gateway.js").Session} Session */

export class Notifications {
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
    const watched =
      document.visibilityState === "visible" && document.hasFocus() && now.id === current;
    const asks =
      now.tier === "needs_you" && (before?.tier !== "needs_you" || now.requests > before.requests);
    const ended = before?.tier === "running" && now.tier === "idle";
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
    if (!preferences.notify || !("Notification" in window) || Notification.permission !== "granted")
      return;
    // With a tag there is one notification per session, however often it asks.
    const options = { body, tag: `towpath-${id}`, icon: "/icon.svg", data: { session: id } };
    try {
      const notification = new Notification(title, options);
      notification.onclick = () => {
        window.focus();
        this.open(id);
        notification.close();
      };
    } catch {
      // Chrome on Android has only the notifications of service workers, and throws.
      void notifyFromWorker(title, options);
    }
  }
}

/** @param {string} title @param {NotificationOptions} options */
async function notifyFromWorker(title, options) {
  try {
    const registration = await navigator.serviceWorker?.getRegistration();
    await registration?.showNotification(title, options);
  } catch {
    // The title and the icon of the page still show that it is needed.
    return;
  }
}

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
