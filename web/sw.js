// The service worker caches the page itself, so that it opens without a network and can report that.
// It never caches the API: what is shown of a session always comes from the server.
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

// On Android a notification belongs to the worker, so the tap arrives here.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(showSession(event.notification.data?.session));
});

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
