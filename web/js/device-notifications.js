/**
 * The notifications of this device: showing and closing them. Loaded when there is one.
 *
 * @module
 */

import { preferences } from "./preferences.js";

/**
 * @param {string} id the session
 * @param {string} title
 * @param {string} body
 * @param {(id: string) => void} open
 */
export function notify(id, title, body, open) {
  // With a tag there is one notification per session, however often it asks.
  const options = { body, tag: `towpath-${id}`, icon: "/icon.svg", data: { session: id } };
  // With push, the server knows that no page is visible, and sends a message that says more.
  if (preferences.push && document.visibilityState !== "visible") return;
  try {
    const notification = new Notification(title, options);
    notification.onclick = () => {
      window.focus();
      open(id);
      notification.close();
    };
  } catch {
    // Chrome on Android has only the notifications of service workers, and throws.
    void notifyFromWorker(title, options);
  }
}

/** Closes the notifications of sessions that were answered. @param {(session: string) => boolean} about */
export async function closeNotifications(about) {
  try {
    const registration = await navigator.serviceWorker?.getRegistration();
    for (const shown of (await registration?.getNotifications?.()) ?? []) {
      const session = shown.data?.session;
      if (session && about(session)) shown.close();
    }
  } catch {
    // They can be closed by hand.
    return;
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
