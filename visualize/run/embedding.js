// @ts-check
// A run's view in another app: it brings its styles, and adapts to its own width instead of the
// window's.
import { make } from "../kit/dom.js";

/** Pixels in which text and tree fit side by side. */
const WIDE = 1000;
/**
 * The styles that a document has.
 * @type {WeakMap<Document, string>}
 */
const brought = new WeakMap();

/**
 * @param {HTMLElement} element
 * @param {string} styles
 */
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
