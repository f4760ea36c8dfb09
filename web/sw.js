// The service worker caches the page itself, so that it opens without a network and can report that.
// It never caches the API: what is shown of a session always comes from the server. It also shows push
// messages, and answers requests from their buttons.
const SHELL = "towpath-shell";

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => {
  event.waitUntil(self.clients.claim());
});

// The page was loaded before its worker, so it sends the list of its files.
self.addEventListener("message", (event) => {
  const files = event.data.filter(
    (name) =>
      new URL(name).origin === location.origin && !new URL(name).pathname.startsWith("/api/"),
  );
  event.waitUntil(caches.open(SHELL).then((cache) => cache.addAll(files)));
});

self.addEventListener("push", (event) => {
  let message;
  try {
    message = event.data.json();
  } catch {
    // Browsers want every message to be shown.
    message = { kind: "test", title: "Towpath", body: "Something happened." };
  }
  event.waitUntil(receive(message));
});

const LABELS = { allow: "Allow", deny: "Deny" };

/** With a tag there is one notification per session, however often it asks. */
const tagOf = (session) => (session ? `towpath-${session}` : "towpath-test");

async function receive(message) {
  await showBadge(message.waiting ?? 0);
  const tag = tagOf(message.session);
  if (message.kind === "resolved") return closeNotifications(tag);
  const { session, request } = message;
  // Where there is room for two buttons only, a tap on the rest opens the page.
  const answers = (message.actions ?? []).filter((it) => it in LABELS);
  const actions = [
    ...answers.map((it) => ({ action: it, title: LABELS[it] })),
    { action: "open", title: "Open" },
  ].slice(0, Notification.maxActions || 2);
  return self.registration.showNotification(message.title, {
    body: message.body,
    tag,
    // A newer request of the same session makes a sound again.
    renotify: message.kind === "request",
    requireInteraction: message.kind === "request",
    icon: "/icons/icon-192.png",
    badge: "/icons/badge-96.png",
    data: { session, request, title: message.title },
    ...(session && { actions }),
  });
}

async function closeNotifications(tag) {
  for (const shown of await self.registration.getNotifications({ tag })) shown.close();
}

async function showBadge(count) {
  try {
    await (count ? navigator.setAppBadge?.(count) : navigator.clearAppBadge?.());
  } catch {
    // A page that is not installed has no badge.
  }
}

// On Android a notification belongs to the worker, so the tap arrives here.
self.addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  const { session, request, title } = notification.data ?? {};
  event.waitUntil(
    action in LABELS && session && request
      ? answer(session, request, action, title)
      : showSession(session),
  );
});

// The cookie of the page signs the worker in. Nothing is said if it worked; if not, the user must know
// that the agent still waits.
async function answer(session, request, decision, title) {
  let problem;
  try {
    const response = await fetch(
      `/api/v1/sessions/${encodeURIComponent(session)}/requests/${encodeURIComponent(request)}`,
      {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ decision }),
      },
    );
    // Another device may have been faster.
    if (response.ok || response.status === 409) return;
    problem = (await response.json().catch(() => ({}))).detail ?? `error ${response.status}`;
  } catch {
    problem = "the server cannot be reached";
  }
  await self.registration.showNotification(title ?? "Towpath", {
    body: `Your answer was not sent: ${problem}. Tap to open the session.`,
    tag: tagOf(session),
    icon: "/icons/icon-192.png",
    badge: "/icons/badge-96.png",
    data: { session },
  });
}

async function showSession(session) {
  const address = session ? `/#/s/${session}` : "/";
  const [page] = await self.clients.matchAll({ type: "window" });
  if (!page) return self.clients.openWindow(address);
  const shown = await page.navigate(address);
  return (shown ?? page).focus();
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (
    request.method !== "GET" ||
    url.origin !== location.origin ||
    url.pathname.startsWith("/api/")
  )
    return;
  event.respondWith(fetchOrCached(request));
});

// Network first: a page that is older than its server would not understand it.
async function fetchOrCached(request) {
  const cache = await caches.open(SHELL);
  try {
    const response = await fetch(request);
    if (response.ok && response.type === "basic") await cache.put(request, response.clone());
    return response;
  } catch (problem) {
    const cached = await cache.match(request, { ignoreSearch: true });
    if (cached) return cached;
    throw problem;
  }
}
