// @ts-check
// The visitor's own runs, as points for the curves of the theory. The page forgets them when it is
// left.

const MOST = 50;
/** @type {{ run: string, name: string, gamma: number, tokens: number, speedup: number }[]} */
const known = [];

export const ownRuns = () => known;

/** @param {any} run */
export function rememberRun(run) {
  const earlier = known.findIndex((one) => one.run === run.run);
  if (earlier >= 0) known.splice(earlier, 1);
  known.push(run);
  if (known.length > MOST) known.shift();
  document.dispatchEvent(new CustomEvent("ouro:run"));
}
