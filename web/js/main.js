/**
 * Starts the page: the app if the browser is signed in, and the sign-in form otherwise.
 *
 * @module
 */

import { callApi, deviceModel } from "./api.js";
import { App } from "./app.js";
import { registerServiceWorker } from "./ui/trusted-html.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));

/** Exchanges the token of a sign-in link for a cookie, and removes it from the address and the history. */
async function exchangeToken() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return undefined;
  history.replaceState(history.state, "", location.pathname);
  const device = await deviceModel();
  return callApi("POST", "/sign-in", { token: decodeURIComponent(token), device }).then(
    () => undefined,
    (problem) => problem.message,
  );
}

async function start() {
  const refused = await exchangeToken();
  try {
    const me = await callApi("GET", "/me");
    new App(place, me);
  } catch (problem) {
    const { status, message } = /** @type {import("./api.js").Problem} */ (problem);
    const { showSignIn } = await import("./dialogs/sign-in.js");
    showSignIn(place, status === 401 ? (refused ?? "") : message, start);
    // The page may come from the cache while the server is down.
    if (status === 0) setTimeout(() => void start(), 2000);
  }
}

void start();
if (navigator.serviceWorker && isSecureContext) {
  registerServiceWorker().catch(() => undefined);
  void navigator.serviceWorker.ready.then(({ active }) => {
    const loaded = performance.getEntriesByType("resource").map((it) => it.name);
    const scripts = ["/js/dialogs/sign-in.js", "/js/ui/stylesheets.js"];
    const signIn = ["/", ...scripts, "/css/fields.css", "/css/sign-in.css"];
    const files = [...loaded, ...signIn.map((path) => location.origin + path)];
    active?.postMessage([...new Set(files)]);
  });
}
