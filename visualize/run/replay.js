// @ts-check
// Mount the run of a saved replay.
import { followColourScheme, pageFacts, unpackPlotly } from "../kit/standalone.js";
import { mount } from "./token_view.js";

const nothing = () => {};
const run = () => mount(document.getElementById("run"), pageFacts(), nothing, nothing);

followColourScheme();
unpackPlotly().then(run, run); // an old browser shows the run without its charts
