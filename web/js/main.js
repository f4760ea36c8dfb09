/**
 * The beginning: who is here, and then the page, or the door.
 *
 * @module
 */

import { ask } from "./api.js";
import { App } from "./app.js";
import { keepShell } from "./trusted.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));

/** Trades the token of a printed link for a cookie, and takes it out of the address and the history. */
async function tradeToken() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return undefined;
  history.replaceState(null, "", location.pathname);
  return ask("POST", "/sign-in", { token: decodeURIComponent(token) }).then(() => undefined, (problem) => problem.message);
}

async function begin() {
  const refused = await tradeToken();
  try {
    const me = await ask("GET", "/me");
    new App(place, me);
  } catch (problem) {
    const { status, message } = /** @type {import("./api.js").Problem} */ (problem);
    const { door } = await import("./door.js");
    door(place, status === 401 ? (refused ?? "") : message, begin);
    // The shell may have come from the cache while the server is away.
    if (status === 0) setTimeout(() => void begin(), 2000);
  }
}

void begin();
if ("serviceWorker" in navigator && isSecureContext) {
  keepShell().catch(() => undefined);
  void navigator.serviceWorker.ready.then(({ active }) => {
    const loaded = performance.getEntriesByType("resource").map((it) => it.name);
    const door = ["/", "/js/door.js", "/js/styles.js", "/css/sheets.css"].map((path) => location.origin + path);
    active?.postMessage([...new Set([...loaded, ...door])]);
  });
}
