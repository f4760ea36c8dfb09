/**
 * Push messages to this device: asking for the permission, subscribing, and why that is impossible.
 *
 * @module
 */

import { callApi } from "./api.js";
import { preferences } from "./preferences.js";
import { fill, h } from "./ui/elements.js";
import { install } from "./notifications.js";

/** @typedef {import("./gateway.js").Me} Me */

/** Why this browser cannot receive messages; undefined if it can. @param {Me} me */
function obstacle(me) {
  if (!window.isSecureContext)
    return "Browsers allow this only over HTTPS, or on the machine that runs the server.";
  if (isApple() && !isInstalled())
    return "On an iPhone or iPad, first add Towpath to the home screen (Share, then Add to Home Screen), and open it from there.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window))
    return "This browser cannot receive messages while its page is closed.";
  if (!me.push) return "This server cannot send messages. Its log says why.";
  if (Notification.permission === "denied")
    return "Notifications are blocked for this page. Allow them in the browser's settings for this address.";
  return undefined;
}

function isApple() {
  // An iPad pretends to be a Mac, but no Mac has a touch screen.
  return (
    /iPhone|iPad|iPod/.test(navigator.userAgent) ||
    (/Macintosh/.test(navigator.userAgent) && navigator.maxTouchPoints > 1)
  );
}

function isInstalled() {
  return (
    matchMedia("(display-mode: standalone)").matches ||
    /** @type {any} */ (navigator).standalone === true
  );
}

async function currentSubscription() {
  const registration = await navigator.serviceWorker?.getRegistration();
  return (await registration?.pushManager?.getSubscription()) ?? undefined;
}

/**
 * Subscribes this browser. The server replaces what it knows of it.
 *
 * @param {Me} me
 */
async function subscribe(me) {
  if ((await Notification.requestPermission()) !== "granted")
    throw new Error(
      "The browser did not allow notifications. Allow them in its settings for this address.",
    );
  const registration = await navigator.serviceWorker.ready;
  const key = /** @type {string} */ (me.push?.key);
  const known = await registration.pushManager.getSubscription();
  // A subscription belongs to one server: after its key was replaced, it is useless.
  if (known && !hasKey(known, key)) await known.unsubscribe();
  const subscription = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: key,
  });
  await callApi("PUT", "/push/subscriptions", subscription.toJSON());
}

/** @param {PushSubscription} subscription @param {string} key */
function hasKey(subscription, key) {
  const bytes = subscription.options?.applicationServerKey;
  if (!bytes) return true;
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") === key;
}

/** Messages stop even if the server cannot be told: the address then leads nowhere. */
async function unsubscribe() {
  const subscription = await currentSubscription();
  if (!subscription) return;
  const { endpoint } = subscription;
  await subscription.unsubscribe();
  await callApi("DELETE", "/push/subscriptions", { endpoint }).catch((problem) => {
    // The server may have forgotten it already.
    if (problem.status !== 409) throw problem;
  });
}

/** Tells the server again where this browser is: its address changes from time to time. @param {Me} me */
export async function renewSubscription(me) {
  if (obstacle(me) || Notification.permission !== "granted") return;
  await subscribe(me).catch(() => undefined);
}

/**
 * The fields of the settings: the switch, a test, and installing the page.
 *
 * @param {Me} me
 * @returns {import("./ui/elements.js").Child[]}
 */
export function deviceFields(me) {
  const hindrance = obstacle(me);
  const about = h("small", {});
  const box = h("input", { type: "checkbox", role: "switch", checked: preferences.notify });
  const error = h("p", { class: "form-error", role: "alert" });
  const test = h("button", { type: "button", class: "button" }, "Send a test");
  const testField = h(
    "div",
    { class: "switch-field" },
    h("span", {}, "Test", h("small", {}, "A message to this device, by way of its push service")),
    test,
  );

  const show = () => {
    box.checked = preferences.notify;
    testField.hidden = !preferences.push;
    about.textContent = preferences.push
      ? "When an agent needs you, or is done after a while, even if this page is closed"
      : "When an agent needs you or is done while you look elsewhere";
    if (hindrance)
      fill(about, "While this page is open. ", h("span", { class: "hindrance" }, hindrance));
  };

  box.addEventListener("change", async () => {
    box.disabled = true;
    error.textContent = "";
    try {
      if (box.checked) await turnOn();
      else await turnOff();
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    }
    box.disabled = false;
    show();
  });

  const turnOn = async () => {
    if (!("Notification" in window)) throw new Error(hindrance);
    if ((await Notification.requestPermission()) !== "granted")
      throw new Error(
        "Notifications are blocked for this page. Allow them in the browser's settings for this address.",
      );
    preferences.notify = true;
    if (hindrance) return;
    try {
      await subscribe(me);
      preferences.push = true;
    } catch (problem) {
      throw new Error(
        `Notifications come while this page is open, and not when it is closed: ${/** @type {Error} */ (problem).message}`,
      );
    }
  };

  const turnOff = async () => {
    preferences.notify = preferences.push = false;
    await unsubscribe();
  };

  test.addEventListener("click", async () => {
    test.disabled = true;
    error.textContent = "";
    try {
      const subscription = await currentSubscription();
      if (!subscription) throw new Error("This device is not subscribed. Switch it off and on.");
      await callApi("POST", "/push/test", { endpoint: subscription.endpoint });
      test.textContent = "Sent";
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    }
    test.disabled = false;
  });

  show();
  return [
    h(
      "label",
      { class: "switch-field", "data-setting": "notify" },
      h("span", {}, "Notify this device", about),
      box,
    ),
    testField,
    error,
    installField(),
  ];
}

/** Installing the page, if the browser offers it. */
function installField() {
  if (!install.prompt || isInstalled()) return false;
  const field = h(
    "div",
    { class: "switch-field" },
    h("span", {}, "Install", h("small", {}, "As an app with its own window and icon")),
    h(
      "button",
      {
        type: "button",
        class: "button",
        onclick: () => {
          // The browser's question can be asked once; it offers another one if the answer is no.
          void install.prompt?.prompt();
          install.prompt = undefined;
          field.remove();
        },
      },
      "Install",
    ),
  );
  return field;
}
