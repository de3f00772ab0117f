// Mounts the one run of a replay that stands alone.
import { followColourScheme, pageFacts } from "../kit/standalone.js";
import { mount } from "./token_view.js";

followColourScheme();
mount(
  document.getElementById("run"),
  pageFacts(),
  () => {},
  () => {},
);
