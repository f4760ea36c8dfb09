// Push messages: the settings, the real service worker, and a push service here that decrypts. Chromium
// without a screen has no push service, so the page gets a subscription of ours, and messages are
// handed to the worker by the developer tools.
import { createServer } from "node:http";
import { webcrypto } from "node:crypto";
import { assert, clean, DESKTOP, PHONE, steps, until } from "./fixture.mjs";

const { subtle } = webcrypto;
const base64 = (bytes) => Buffer.from(bytes).toString("base64url");

/** A push service with one browser. */
class PushService {
  static async start() {
    const service = new PushService();
    service.pair = await subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]);
    service.public = Buffer.from(await subtle.exportKey("raw", service.pair.publicKey));
    service.auth = webcrypto.getRandomValues(Buffer.alloc(16));
    service.inbox = [];
    service.server = createServer((request, response) => {
      const chunks = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", async () => {
        service.inbox.push(await service.decrypt(Buffer.concat(chunks)));
        response.writeHead(201).end();
      });
    });
    await new Promise((resolve) => service.server.listen(0, "127.0.0.1", resolve));
    return service;
  }

  /** As the browser gives it to the page. */
  get subscription() {
    return { endpoint: `http://127.0.0.1:${this.server.address().port}/push/1`, keys: { p256dh: base64(this.public), auth: base64(this.auth) } };
  }

  /** RFC 8291. */
  async decrypt(body) {
    const [salt, length] = [body.subarray(0, 16), body[20]];
    const [sender, record] = [body.subarray(21, 21 + length), body.subarray(21 + length)];
    const theirs = await subtle.importKey("raw", sender, { name: "ECDH", namedCurve: "P-256" }, false, []);
    const secret = await subtle.deriveBits({ name: "ECDH", public: theirs }, this.pair.privateKey, 256);
    const derive = async (key, salt, info, bits) => subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, await subtle.importKey("raw", key, "HKDF", false, ["deriveBits"]), bits);
    const input = await derive(secret, this.auth, Buffer.concat([Buffer.from("WebPush: info\0"), this.public, sender]), 256);
    const key = await derive(input, salt, Buffer.from("Content-Encoding: aes128gcm\0"), 128);
    const iv = await derive(input, salt, Buffer.from("Content-Encoding: nonce\0"), 96);
    const plain = await subtle.decrypt({ name: "AES-GCM", iv }, await subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]), record);
    return Buffer.from(plain).subarray(0, -1).toString();
  }

  next() {
    return until("a push message", () => this.inbox.shift());
  }
}

const service = await PushService.start();

/** A page that may notify, in a context of its own, whose subscription is ours. */
async function open(server, screen, kind) {
  const context = await screen.browser.newContext({ ...kind, reducedMotion: "reduce" });
  await context.grantPermissions(["notifications"], { origin: server.address });
  const page = await context.newPage();
  screen.watch(page);
  await page.addInitScript((given) => {
    const made = { ...given, options: {}, toJSON: () => given, unsubscribe: async () => delete localStorage.subscribed };
    PushManager.prototype.subscribe = async (options) => {
      if (!options.userVisibleOnly || !options.applicationServerKey) throw new Error("a browser would refuse this");
      localStorage.subscribed = "yes";
      return made;
    };
    PushManager.prototype.getSubscription = async () => (localStorage.subscribed ? made : null);
  }, service.subscription);
  await page.goto(`${server.address}/#token=${encodeURIComponent(server.token)}`);
  await page.waitForFunction(() => !location.hash.includes("token") && document.querySelector(".sidebar"));
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  const devtools = await context.newCDPSession(page);
  let registration;
  devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => (registration = registrations.find((it) => !it.isDeleted)?.registrationId ?? registration));
  await devtools.send("ServiceWorker.enable");
  await until("the worker is registered", () => registration);
  const deliver = (data) => devtools.send("ServiceWorker.deliverPushMessage", { origin: server.address, registrationId: registration, data });
  return { context, page, deliver };
}

const shown = (page) =>
  page.evaluate(async () => {
    const registration = await navigator.serviceWorker.getRegistration();
    return (await registration.getNotifications()).map(({ title, body, tag, data, actions }) => ({ title, body, tag, data, actions: actions.map((it) => it.title) }));
  });

/**
 * Delivers a message until it is shown: the developer tools drop one for a worker that is just starting, and
 * a page that is just opening closes those of its session. A push service may repeat itself too.
 */
const showMessage = (page, deliver, message) =>
  until("it is shown", async () => {
    await deliver(message);
    return until("now", async () => (await shown(page)).length === 1, 3_000).catch(() => false);
  }).then(() => undefined);

/** Presses a button of the only notification. Only the browser makes events that count as real. */
const click = (context, action) =>
  context.serviceWorkers().at(-1).evaluate(async (action) => {
    const [notification] = await self.registration.getNotifications();
    const event = new NotificationEvent("notificationclick", { notification, action });
    let done;
    Object.defineProperty(event, "waitUntil", { value: (promise) => (done = promise) });
    self.dispatchEvent(event);
    await done;
  }, action);

const openSettings = async (page) => {
  if (!(await page.getByRole("button", { name: "Settings" }).isVisible())) await page.getByRole("button", { name: "Sessions" }).first().click();
  await page.getByRole("button", { name: "Settings" }).click();
};

/** Switches the notifications of this device on, and leaves the app, so that no page is visible. */
async function subscribeAndLeave(server, page) {
  await openSettings(page);
  await page.getByLabel("Notify this device").check();
  await page.getByRole("button", { name: "Send a test" }).waitFor();
  await page.goto(`${server.address}/icon.svg`);
}

// Only the whole browser has push subscriptions.
await steps({ browser: process.env.FULL_BROWSER, options: { more: ["--allow-private-push"] }, steps: {
  "a device is subscribed, tried and unsubscribed in the settings": async (server, screen) => {
    for (const kind of [DESKTOP, PHONE]) {
      const { context, page, deliver } = await open(server, screen, kind);
      await openSettings(page);
      const box = page.getByLabel("Notify this device");
      assert.equal(await page.getByRole("button", { name: "Send a test" }).isVisible(), false);
      await box.check();
      await page.getByRole("button", { name: "Send a test" }).click();
      await page.getByRole("button", { name: "Sent" }).waitFor();
      const message = await service.next();
      assert.equal(JSON.parse(message).kind, "test");
      await showMessage(page, deliver, message);
      assert.equal((await shown(page))[0].body, "Notifications work on this device.");
      await clean(page, "settings");
      await box.uncheck();
      await page.getByRole("button", { name: "Send a test" }).waitFor({ state: "hidden" });
      assert.equal(await page.evaluate(() => localStorage.subscribed), undefined);
      await context.close();
    }
  },
  "a browser that cannot be reached says why, and notifies while its page is open": async (server, screen) => {
    const { context, page } = await open(server, screen, DESKTOP);
    await page.evaluate(() => (PushManager.prototype.subscribe = async () => { throw new DOMException("Registration failed - push service not available", "AbortError"); }));
    await openSettings(page);
    await page.locator("[data-setting=notify] input").click();
    await page.getByText(/not when it is closed: Registration failed/).waitFor();
    assert.deepEqual(await page.evaluate(() => [localStorage["towpath.notify"], localStorage["towpath.push"]]), ["on", undefined]);
    await context.close();
  },
  "a request is allowed from its notification, while no page is open": async (server, screen) => {
    const { context, page, deliver } = await open(server, screen, PHONE);
    await subscribeAndLeave(server, page);
    await context.serviceWorkers().at(-1).evaluate(() => { navigator.setAppBadge = async (count) => void (self.badge = count); navigator.clearAppBadge = async () => void (self.badge = 0); });
    const session = await server.session({ title: "Fix the cart" });
    await server.prompt(session, "make a file");
    const message = await service.next();
    await showMessage(page, deliver, message);
    const [notification] = await shown(page);
    assert.deepEqual([notification.title, notification.body, notification.actions], ["Fix the cart needs you", "Run: echo made it > made.txt; echo done-with-it", ["Allow", "Deny"]]);
    assert.equal(await context.serviceWorkers().at(-1).evaluate(() => self.badge), 1);
    await click(context, "allow");
    await until("it was allowed", async () => (await server.texts(session)).includes("It is made."));
    assert.equal((await shown(page)).length, 0);
    // The server closes it everywhere; here it is closed already.
    await deliver(await service.next());
    await until("the badge is gone", async () => (await context.serviceWorkers().at(-1).evaluate(() => self.badge)) === 0);
    assert.equal((await shown(page)).length, 0);
    await context.close();
  },
  "what does not fit is not allowed from a notification, and an answer elsewhere closes it": async (server, screen) => {
    const { context, page, deliver } = await open(server, screen, DESKTOP);
    await subscribeAndLeave(server, page);
    const session = await server.session({ title: "Fix the cart" });
    await server.prompt(session, "run a long command");
    const message = await service.next();
    await showMessage(page, deliver, message);
    const [{ actions, body, data }] = await shown(page);
    assert.deepEqual(actions, ["Deny", "Open"]);
    assert.ok(body.length <= 100 && body.endsWith("…"), body);
    // An answer that the server refuses is not lost silently.
    await context.clearCookies();
    await click(context, "deny");
    await until("it says so", async () => (await shown(page)).some((it) => it.body.startsWith("Your answer was not sent")));
    await server.ask("POST", `/sessions/${session}/requests/${data.request}`, { decision: "deny" });
    const resolved = await service.next();
    assert.equal(JSON.parse(resolved).kind, "resolved");
    await deliver(resolved);
    await until("it is closed", async () => (await shown(page)).length === 0);
    await context.close();
  },
  "a page that is opened closes what was answered, and an app can be installed": async (server, screen) => {
    const { context, page, deliver } = await open(server, screen, DESKTOP);
    const session = await server.session({ title: "Fix the cart" });
    await showMessage(page, deliver, JSON.stringify({ kind: "turn", session, title: "Fix the cart is done", body: "It took 3 min.", waiting: 0 }));
    await page.reload();
    await until("it is closed", async () => (await shown(page)).length === 0);
    const manifest = await page.evaluate(async () => (await fetch("/manifest.webmanifest")).json());
    for (const { src, sizes } of manifest.icons.filter((it) => it.type === "image/png")) {
      const found = await page.evaluate(async (src) => { const image = new Image(); image.src = src; await image.decode(); return `${image.naturalWidth}x${image.naturalHeight}`; }, src);
      assert.equal(found, sizes, src);
    }
    const devtools = await context.newCDPSession(page);
    const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
    // A context of a test is like a private window.
    assert.deepEqual(installabilityErrors.map((it) => it.errorId).filter((it) => it !== "in-incognito"), []);
    await context.close();
  },
} });
service.server.close();
