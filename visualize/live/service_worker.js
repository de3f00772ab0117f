// @ts-check
// Keeps the files of the site, so that it opens without a network after the first visit. VERSION is
// set when the site is written.
const worker = /** @type {any} */ (self);
const CACHE = "ouroboros-VERSION";
/** Files that the page has read before this worker begins. */
const FIRST = ["watch.html", "live.js", "site.css", "plotly.min.js", "runs/java-union.js"];

worker.addEventListener("install", (/** @type {any} */ event) => {
  worker.skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FIRST)));
});

worker.addEventListener("activate", (/** @type {any} */ event) =>
  event.waitUntil(
    caches.keys().then((names) => {
      const old = names.filter((name) => name.startsWith("ouroboros-") && name !== CACHE);
      return Promise.all([...old.map((name) => caches.delete(name)), worker.clients.claim()]);
    }),
  ),
);

/**
 * Answer a request: large files, whose address has a version, from the cache; others from the
 * network as long as there is one.
 * @param {Request} request
 */
async function answer(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept && new URL(request.url).searchParams.has("v")) return kept;
  try {
    const fresh = await fetch(request);
    if (fresh.ok) await cache.put(request, fresh.clone()).catch(() => {}); // the disk may be full
    return fresh;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  const { request } = event;
  if (request.method === "GET" && request.url.startsWith(worker.registration.scope))
    event.respondWith(answer(request));
});
