// A run's view in an app that is not ours: it brings its own styles, and looks at the space that it
// has instead of the window's.
import { make } from "../kit/dom.js";

const WIDE = 1000; // pixels in which text and tree have space beside each other
const brought = new WeakMap(); // of a document, by their text

export function embed(element, styles) {
  if (brought.get(document) !== styles) {
    document.head.append(make("style", "ouro-styles", styles));
    brought.set(document, styles);
  }
  element.classList.add("ouro-view");
  const measure = () => element.toggleAttribute("data-narrow", element.clientWidth < WIDE);
  new ResizeObserver(measure).observe(element);
  measure();
}
