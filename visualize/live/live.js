// @ts-check
// The static site's live page.
import { load } from "../gallery/recorded.js";
import { followColourScheme, keepQuery, pageFacts } from "../kit/standalone.js";
import { mountLive } from "./live_view.js";

const LONGEST_WAIT_MS = 10_000;

/** Have a service worker keep the files that are fetched from now on, where a browser has one. */
async function keepFiles() {
  const { serviceWorker } = navigator;
  if (!serviceWorker) return;
  const begun = new Promise((resolve) => {
    serviceWorker.addEventListener("controllerchange", resolve, { once: true });
    setTimeout(resolve, LONGEST_WAIT_MS);
  });
  await serviceWorker.register("service_worker.js");
  if (!serviceWorker.controller) await begun;
}

followColourScheme();
keepQuery();
const kept = keepFiles().catch(() => {}); // the page also works without
mountLive(pageFacts(), load, kept);
