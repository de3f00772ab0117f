// What was kept when the page was loaded anew, as values of its components: the inputs, then the
// view, then the charts, and
// nothing for the link and the note on an example. inputs and charts: how many there are.
export function kept({ key, inputs, charts, blank }) {
  const [how] = performance.getEntriesByType("navigation");
  const text = how && how.type === "reload" && sessionStorage.getItem(key);
  const kept = text ? JSON.parse(text) : {};
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
