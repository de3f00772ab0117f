// @ts-check
// Scroll so that several elements are visible together.

const EDGE = 6; // pixels between the elements and the edge of their box

/**
 * Return how far to scroll so that a stretch lies between two limits. Of a stretch that is too long
 * its beginning is visible.
 * @param {number} from
 * @param {number} to
 * @param {number} low
 * @param {number} high
 */
export const shift = (from, to, low, high) =>
  from < low || to - from > high - low ? from - low : Math.max(0, to - high);

/**
 * Return the box around the elements that are drawn, and the box of the first of them.
 * @param {Element[]} nodes
 */
export function around(nodes) {
  const boxes = nodes
    .map((node) => node.getBoundingClientRect())
    .filter((box) => box.width || box.height);
  if (!boxes.length) return undefined;
  return {
    first: boxes[0],
    left: Math.min(...boxes.map((box) => box.left)),
    top: Math.min(...boxes.map((box) => box.top)),
    right: Math.max(...boxes.map((box) => box.right)),
    bottom: Math.max(...boxes.map((box) => box.bottom)),
  };
}

/**
 * Scroll a box so that the elements in it are visible, or else the first of them.
 * @param {HTMLElement} box
 * @param {Element[]} nodes
 */
export function showIn(box, nodes) {
  const frame = box.getBoundingClientRect(),
    all = around(nodes);
  if (!all) return;
  const fits = all.bottom - all.top < frame.height && all.right - all.left < frame.width,
    goal = fits ? all : all.first;
  box.scrollTop += shift(goal.top, goal.bottom, frame.top + EDGE, frame.bottom - EDGE);
  box.scrollLeft += shift(goal.left, goal.right, frame.left + EDGE, frame.right - EDGE);
}
