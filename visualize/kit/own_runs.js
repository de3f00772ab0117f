// The visitor's own runs, as points for the curves of the theory: kept by the page, and forgotten
// with it.
const MOST = 50;
const known = [];

export const ownRuns = () => known;

export function rememberRun(run) {
  const earlier = known.findIndex((one) => one.run === run.run);
  if (earlier >= 0) known.splice(earlier, 1);
  known.push(run);
  if (known.length > MOST) known.shift();
  document.dispatchEvent(new CustomEvent("ouro:run"));
}
