// @ts-check
// Mount the run of a saved replay.
import { followColourScheme, pageFacts } from "../kit/standalone.js";
import { mount } from "./token_view.js";

followColourScheme();
mount(
  document.getElementById("run"),
  pageFacts(),
  () => {},
  () => {},
);
