// The service worker keeps the shell, so that the page opens without a network and can say so.
// It never answers for the API: what is shown of a session comes from the server or not at all.
const SHELL = "towpath-shell";

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => {
  event.waitUntil(self.clients.claim());
});

// The page came before its worker did, so it says what it is made of.
self.addEventListener("message", (event) => {
  const own = event.data.filter((name) => new URL(name).origin === location.origin && !new URL(name).pathname.startsWith("/api/"));
  event.waitUntil(caches.open(SHELL).then((cache) => cache.addAll(own)));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const address = new URL(request.url);
  if (request.method !== "GET" || address.origin !== location.origin || address.pathname.startsWith("/api/")) return;
  event.respondWith(fetched(request));
});

// The network comes first: a shell older than its server would speak an older language.
async function fetched(request) {
  const cache = await caches.open(SHELL);
  try {
    const answer = await fetch(request);
    if (answer.ok && answer.type === "basic") await cache.put(request, answer.clone());
    return answer;
  } catch (problem) {
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw problem;
  }
}
