// @ts-check
// Values in the browser's session storage, for a page that is loaded again or gone back to; lasting
// ones, which a visitor asks for, are in its local storage.

/**
 * Return the stored value of a key, or null without one or without storage.
 * @param {string} key
 * @param {boolean} lasting
 * @returns {any}
 */
export function recall(key, lasting = false) {
  try {
    return JSON.parse((lasting ? localStorage : sessionStorage).getItem(key));
  } catch {
    return null;
  }
}

/**
 * Store a value, unless it is too large or storage is forbidden: the page works without.
 * @param {string} key
 * @param {any} value
 * @param {boolean} lasting
 */
export function store(key, value, lasting = false) {
  try {
    const place = lasting ? localStorage : sessionStorage;
    place.removeItem(key);
    place.setItem(key, JSON.stringify(value));
  } catch {}
}

/**
 * Return values of the page's components, as they were when the page was left: the inputs, the
 * view, the charts, and nothing for the link. A first visit begins
 * afresh, and so does another address.
 * @param {{ key: string, inputs: number, charts: number, blank: object }} page  inputs and charts:
 *   their numbers
 * @returns {any[]}
 */
export function restored({ key, inputs, charts, blank }) {
  const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (
    performance.getEntriesByType("navigation")
  );
  const again = navigation && ["reload", "back_forward"].includes(navigation.type);
  const stored = again && recall(key);
  const left = stored && stored.query === location.search ? stored : {};
  const values =
    left.inputs && left.inputs.length === inputs ? left.inputs : Array(inputs).fill(undefined);
  const view = left.view && JSON.stringify(left.view);
  return [
    ...values,
    view || undefined,
    ...Array(charts).fill(view ? JSON.stringify(blank) : undefined),
    view ? null : undefined,
  ];
}
