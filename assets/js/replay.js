// Mounts the one run of a replay that stands alone.
import { dress, facts } from "./alone.js";
import { mount } from "./token_view.js";

dress();
mount(
  document.getElementById("run"),
  facts(),
  () => {},
  () => {},
);
