// What a link holds, and the offer to run it. `props.button` is the id of the button that runs
// whatever the inputs say.
import { make } from "../kit/dom.js";

export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-link");
  const lines = root.querySelector(".ouro-link-lines"),
    button = root.querySelector("button");

  function paint() {
    const value = props.value && JSON.parse(props.value);
    root.hidden = !value;
    if (!value) return;
    lines.replaceChildren(...value.lines.map((line) => make("p", "", line)));
    button.hidden = !value.offer;
  }

  const starts = () => document.getElementById(props.button);
  button.addEventListener("click", () => starts().click());
  document.addEventListener(
    "click",
    (event) => starts() && starts().contains(event.target) && (root.hidden = true),
  ); // it is run now
  paint();
  watch("value", paint);
}
