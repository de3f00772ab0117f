// What the browser's session storage keeps for a page that is loaded anew, or gone back to.

// What was stored under a key; null where nothing was, or where the browser stores nothing.
export function recall(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

// Stores a value; where it is too large, or storage is forbidden, nothing is stored.
export function store(key, value) {
  try {
    sessionStorage.removeItem(key);
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {} // the page works without
}

// What was kept when the page was left, as values of its components: the inputs, then the view,
// then the charts, and nothing for the link and the note on an example. A page that a visitor goes
// to for the first time begins anew, and so does one at the address of another link.
// inputs and charts: how many there are.
export function restored({ key, inputs, charts, blank }) {
  const [how] = performance.getEntriesByType("navigation");
  const left = how && ["reload", "back_forward"].includes(how.type) && recall(key);
  const kept = left && left.query === location.search ? left : {};
  const known =
    kept.inputs && kept.inputs.length === inputs ? kept.inputs : Array(inputs).fill(undefined);
  const view = kept.view && JSON.stringify(kept.view);
  return [
    ...known,
    view || undefined,
    ...Array(charts).fill(view ? JSON.stringify(blank) : undefined),
    ...(view ? [null, ""] : [undefined, undefined]),
  ];
}
