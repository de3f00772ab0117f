// Mounts the one run of a replay that stands alone.
import { dress, facts } from "../kit/alone.js";
import { mount } from "./token_view.js";

dress();
mount(
  document.getElementById("run"),
  facts(),
  () => {},
  () => {},
);
