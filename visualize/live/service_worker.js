// @ts-check
// Keeps the files of the site, so that it opens without a network after the first visit. VERSION is
// set when the site is written.
const worker = /** @type {any} */ (self);
/** Of this site alone: another one may be on the same server. */
const OWN = `ouroboros ${new URL(worker.registration.scope).pathname} `;
const CACHE = OWN + "VERSION";
/** Files that the page has read before this worker begins. */
const FIRST = ["watch.html", "live.js", "site.css", "plotly.min.js", "runs/java-union.js"];

worker.addEventListener("install", (/** @type {any} */ event) => {
  worker.skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FIRST)));
});

worker.addEventListener("activate", (/** @type {any} */ event) =>
  event.waitUntil(
    caches.keys().then((names) => {
      const old = names.filter((name) => name.startsWith(OWN) && name !== CACHE);
      return Promise.all([...old.map((name) => caches.delete(name)), worker.clients.claim()]);
    }),
  ),
);

/**
 * Answer a request: large files, whose address has a version, from the cache; others from the
 * network as long as there is one.
 * @param {any} event
 */
async function answer(event) {
  const { request } = event;
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept && request.url.includes("/live/VERSION/")) return kept;
  try {
    const fresh = await fetch(request);
    // The disk may be full.
    if (fresh.ok) event.waitUntil(cache.put(request, fresh.clone()).catch(() => {}));
    return fresh;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(worker.registration.scope))
    event.respondWith(answer(event));
});
