// @ts-check
// The static site's live page.
import { load } from "../gallery/recorded.js";
import { followColourScheme, pageFacts } from "../kit/standalone.js";
import { mountLive } from "./live_view.js";

followColourScheme();
mountLive(pageFacts(), load);
if ("serviceWorker" in navigator) navigator.serviceWorker.register("service_worker.js");
