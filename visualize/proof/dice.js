// @ts-check
// Draw tokens by the rules that keep or reject a guess, with a seed, and the chi-square test of the
// draws. p and q are the probabilities of a few tokens, as arrays that sum to one.

/**
 * Return a generator of numbers between zero and one, without both ends: a counter, mixed.
 * @param {number} seed
 * @returns {() => number}
 */
export function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return (((mixed ^ (mixed >>> 16)) >>> 0) + 0.5) / 2 ** 32;
  };
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((all, one) => all + one, 0);
/**
 * @param {number[]} p
 * @param {number[]} q
 */
const smaller = (p, q) => p.map((own, n) => Math.min(own, q[n]));
/**
 * @param {number[]} p
 * @param {number[]} q
 */
const excess = (p, q) => p.map((own, n) => Math.max(own - q[n], 0));
/**
 * The chance that rejection sampling keeps a guess: 1 - TV, the common part of p and q.
 * @param {number[]} p
 * @param {number[]} q
 */
export const common = (p, q) => sum(smaller(p, q));

/**
 * Draw by weights, or by `otherwise` if rounding has left no weight.
 * @param {number[]} weights
 * @param {() => number} random
 * @param {number[]} otherwise
 */
function draw(weights, random, otherwise = weights) {
  const used = sum(weights) > 0 ? weights : otherwise;
  let rest = random() * sum(used);
  const found = used.findIndex((weight) => (rest -= weight) < 0);
  return found < 0 ? used.findLastIndex((weight) => weight > 0) : found;
}

/**
 * Draw a guess and keep it with min(1, p/q) (arXiv 2211.17192, algorithm 1); otherwise draw from
 * `instead`.
 * @param {number[]} p
 * @param {number[]} q
 * @param {() => number} random
 * @param {number[]} instead
 */
function judged(p, q, random, instead) {
  const guess = draw(q, random),
    u = random(),
    chance = Math.min(1, p[guess] / q[guess]);
  const kept = u < chance;
  return {
    tokens: [kept ? guess : draw(instead, random, p)],
    guesses: [guess],
    kept: Number(kept),
    u,
    chance,
  };
}

/**
 * Choose with the same Gumbel noise for both (arXiv 2408.07978).
 * @param {number[]} p
 * @param {number[]} q
 * @param {() => number} random
 */
function matched(p, q, random) {
  const noise = p.map(() => -Math.log(-Math.log(random())));
  /** @param {number[]} own */
  const choice = (own) =>
    own.reduce(
      (best, _, n) => (Math.log(own[n]) + noise[n] > Math.log(own[best]) + noise[best] ? n : best),
      0,
    );
  const token = choice(p),
    guess = choice(q);
  return { tokens: [token], guesses: [guess], kept: Number(token === guess) };
}

/**
 * @param {number} weight
 * @param {number[]} p
 * @param {number[]} q
 * @param {number} token
 */
const weigh = (weight, p, q, token) => Math.min(1, (weight * p[token]) / q[token]);

/**
 * Draw two guesses and judge them as one block (arXiv 2403.10444, algorithm 2): the longest
 * accepted beginning stays.
 * @param {number[]} p
 * @param {number[]} q
 * @param {() => number} random
 */
function block(p, q, random) {
  const guesses = [draw(q, random), draw(q, random)];
  const first = weigh(1, p, q, guesses[0]),
    both = weigh(first, p, q, guesses[1]);
  const lacking = sum(
      excess(
        p.map((own) => first * own),
        q,
      ),
    ),
    rest = lacking + 1 - first;
  const cut = random() < (rest > 0 ? lacking / rest : 1),
    whole = random() < both;
  const kept = whole ? 2 : cut ? 1 : 0,
    scale = [1, first][kept];
  const last =
    kept === 2
      ? p
      : excess(
          p.map((own) => scale * own),
          q,
        );
  return { tokens: [...guesses.slice(0, kept), draw(last, random, p)], guesses, kept };
}

/**
 * Write a pair of tokens: the next block writes the tokens that the first leaves open.
 * @param {number[]} p
 * @param {number[]} q
 * @param {() => number} random
 */
function paired(p, q, random) {
  const begun = block(p, q, random);
  const more = begun.tokens.length < 2 ? block(p, q, random).tokens : [];
  return { ...begun, tokens: [...begun.tokens, ...more].slice(0, 2) };
}

/**
 * @type {Record<string, (p: number[], q: number[], random: () => number) => { tokens: number[],
 *   guesses: number[], kept: number, u?: number, chance?: number }>}
 */
export const RULES = {
  rejection: (p, q, random) => judged(p, q, random, excess(p, q)),
  block: paired,
  match: matched,
  wrong: (p, q, random) => judged(p, q, random, p),
};

/**
 * Return the products of all pairs: the probabilities of two tokens that are drawn one after the
 * other.
 * @param {number[]} p
 */
const pairs = (p) => p.flatMap((one) => p.map((other) => one * other));
/**
 * Return the expected probabilities: p, and under block verification those of both tokens.
 * @param {string} rule
 * @param {number[]} p
 */
export const wanted = (rule, p) => (rule === "block" ? pairs(p) : p);
/**
 * Return the probabilities in the long run: the wrong rule gives tokens that the draft likes a
 * second chance.
 * @param {string} rule
 * @param {number[]} p
 * @param {number[]} q
 */
export const tends = (rule, p, q) =>
  rule === "wrong"
    ? smaller(p, q).map((both, n) => both + (1 - common(p, q)) * p[n])
    : wanted(rule, p);
/**
 * @param {number[]} tokens
 * @param {number} size
 */
export const outcome = (tokens, size) => tokens.reduce((number, token) => number * size + token, 0);

/**
 * Return the mean number of kept guesses in a round, and the number to compare it with.
 * @param {string} rule
 * @param {number[]} p
 * @param {number[]} q
 */
export function theory(rule, p, q) {
  const kept = common(p, q);
  if (rule === "match") {
    const agree = p.map((_, i) => 1 / sum(p.map((_, j) => Math.max(p[j] / p[i], q[j] / q[i]))));
    return { kept: sum(agree), least: kept / (2 - kept) };
  }
  if (rule !== "block") return { kept, least: null };
  const first = p.map((_, i) => weigh(1, p, q, i));
  const both = sum(
    q.flatMap((own, i) => q.map((other, j) => own * other * weigh(first[i], p, q, j))),
  );
  return { kept: kept + both, least: kept + kept ** 2 };
}

export const LEAST = 5;
/**
 * Pearson's test of counts against probabilities. `enough`: each token is expected five times, as
 * the test requires.
 * @param {number[]} counts
 * @param {number[]} p
 */
export function chiSquare(counts, p) {
  const all = sum(counts),
    degrees = p.length - 1;
  const needed = Math.ceil(LEAST / Math.min(...p) - 1e-9);
  const statistic = all
    ? sum(counts.map((count, n) => (count - all * p[n]) ** 2 / (all * p[n])))
    : 0;
  return { statistic, degrees, pValue: beyond(statistic, degrees), enough: all >= needed, needed };
}

/**
 * Return the probability of a larger chi-square, for an even number of degrees of freedom: a sum of
 * Poisson's.
 * @param {number} statistic
 * @param {number} degrees
 */
export function beyond(statistic, degrees) {
  const half = statistic / 2;
  let term = Math.exp(-half),
    all = term;
  for (let n = 1; n < degrees / 2; n++) all += term *= half / n;
  return Math.min(1, all);
}
