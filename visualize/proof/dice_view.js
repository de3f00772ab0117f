// @ts-check
// A game of three tokens: draw by a rule, count, and see whether the counts follow p.
import { chiSquare, common, dice, outcome, RULES, sum, tends, theory, wanted } from "./dice.js";
import { counted, make, percent } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

let games = 0; // there may be several on a page

/**
 * Facts: `seed` of the dice, 1 by default; `drawn`: a thousand tokens are drawn at once.
 * @type {Mount}
 */
export function mount(element, props) {
  const root = element.querySelector(".ouro-dice");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-dice-" + name);
  const TOKENS = ["sun", "rain", "snow"];
  // The markup has the names of the acceptance rules; only rules with a game are offered.
  /** @type {Record<string, string>} */
  const NAMES = { ...JSON.parse(root.dataset.rules), wrong: "Wrong on purpose" };
  /** @type {Record<string, string>} */
  const GAMES = {
    rejection:
      "A guess is drawn from q and kept with the chance min(1, p/q). After a rejection the " +
      "token is drawn from the residual.",
    block:
      "Two guesses are drawn from q and judged as one block: a first guess that is too frequent " +
      "may stay if the second makes the pair rare enough. What is counted here are pairs of tokens.",
    match:
      "Draft and target choose with the same random numbers. A guess is kept if it is what " +
      "the target chooses.",
    wrong: "Like rejection sampling, but after a rejection the token is drawn from p itself.",
  };
  const group = "ouro-dice-" + ++games;
  const FRAMES = 25,
    MANY = 1000;
  const state = {
    rule: "rejection",
    weights: { p: [30, 50, 20], q: [60, 20, 20] },
    counts: /** @type {number[]} */ ([]),
    kept: 0,
    rounds: 0,
    seed: props.seed ?? 1,
    random: /** @type {() => number} */ (null),
    frame: 0,
  };
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  /** @param {"p" | "q"} name */
  const share = (name) => state.weights[name].map((weight) => weight / sum(state.weights[name]));
  /** @param {number} number */
  const label = (number) =>
    state.rule === "block"
      ? `${TOKENS[Math.floor(number / 3)]} ${TOKENS[number % 3]}`
      : TOKENS[number];
  /** @param {number} value */
  const exact = (value) => (100 * value).toFixed(1) + "%";
  /** @param {number} value */
  const few = (value) => (value < 0.001 ? "below 0.001" : value.toFixed(value < 0.1 ? 3 : 2));

  function begin() {
    cancelAnimationFrame(state.frame);
    const size = wanted(state.rule, share("p")).length;
    Object.assign(state, {
      counts: Array(size).fill(0),
      kept: 0,
      rounds: 0,
      random: dice(state.seed),
    });
    part("last").textContent = "";
    paint();
    tell();
  }

  function round() {
    const done = RULES[state.rule](share("p"), share("q"), state.random);
    state.counts[outcome(done.tokens, TOKENS.length)] += 1;
    state.kept += done.kept;
    state.rounds += 1;
    return done;
  }

  function drawOne() {
    cancelAnimationFrame(state.frame);
    part("last").textContent = story(round());
    paint();
    tell();
  }

  /** Draw a thousand in a second, so that the bars are seen to settle. */
  function drawMany() {
    cancelAnimationFrame(state.frame);
    part("last").textContent = "";
    let left = MANY;
    const some = () => {
      const now = still.matches ? left : Math.min(left, MANY / FRAMES);
      for (let n = 0; n < now; n++) round();
      left -= now;
      paint();
      if (left) state.frame = requestAnimationFrame(some);
      else tell();
    };
    some();
  }

  /** @param {ReturnType<typeof RULES.match>} round */
  function story({ guesses, tokens, kept, u, chance }) {
    /** @param {number[]} list */
    const named = (list) => list.map((token) => `“${TOKENS[token]}”`).join(" ");
    const said = `The draft model guesses ${named(guesses)}`;
    if (state.rule === "block")
      return `${said}; ${counted(kept, "guess", "guesses")} kept. The text: ${named(tokens)}.`;
    if (state.rule === "match")
      return `${said}, the target chooses ${named(tokens)}: ${kept ? "kept" : "corrected"}.`;
    const thrown =
      chance < 1
        ? `kept if u < ${chance.toFixed(2)}; u is ${u.toFixed(2)}`
        : "p is not below q, so it is kept";
    const from = state.rule === "wrong" ? "p" : "the residual";
    const end = kept ? "" : `: rejected. From ${from} comes ${named(tokens)}`;
    return `${said}, ${thrown}${end || (chance < 1 ? ": kept" : "")}.`;
  }

  function paint() {
    const p = share("p"),
      q = share("q"),
      want = wanted(state.rule, p),
      limit = tends(state.rule, p, q);
    const all = state.rounds,
      place = (/** @type {number} */ value) => 100 * value + "%";
    part("bars").replaceChildren(
      ...want.map((expected, n) => {
        const row = make("li"),
          bar = make("span", "ouro-dice-bar"),
          fill = make("i"),
          line = make("b");
        const seen = all ? state.counts[n] / all : 0;
        fill.style.width = place(seen);
        line.style.left = place(expected);
        bar.append(fill, line);
        bar.setAttribute("aria-hidden", "true");
        const numbers = [all ? exact(seen) : "–", `p ${exact(expected)}`];
        if (state.rule === "wrong") {
          const goal = make("u");
          goal.style.left = place(limit[n]);
          bar.append(goal);
          numbers.push(`tends to ${exact(limit[n])}`);
        }
        row.dataset.count = String(state.counts[n]);
        row.append(
          make("span", "ouro-dice-token", label(n)),
          bar,
          make("span", "ouro-dice-numbers", numbers.join(" · ")),
        );
        return row;
      }),
    );
    for (const output of root.querySelectorAll("output"))
      output.textContent = percent(share(output.dataset.of)[output.dataset.n]);
    for (const input of root.querySelectorAll("input[type=range]"))
      input.setAttribute("aria-valuetext", percent(share(input.dataset.of)[input.dataset.n]));
    part("key").dataset.rule = state.rule;
    part("what").textContent = GAMES[state.rule];
  }

  /**
   * Return what to say about a wrong rule that the test has not found out.
   * @param {number} tv
   */
  function hidden(tv) {
    if (state.rule !== "wrong") return "";
    return tv < 0.005
      ? " With q so near to p hardly anything is rejected."
      : " The fault is not yet seen: draw more.";
  }

  /** Show the verdict, and how often guesses are kept. */
  function tell() {
    const p = share("p"),
      q = share("q"),
      all = state.rounds,
      tv = 1 - common(p, q);
    const test = chiSquare(state.counts, wanted(state.rule, p));
    const numbers =
      `chi-square ${test.statistic.toFixed(1)} with ${test.degrees} degrees ` +
      `of freedom, p-value ${few(test.pValue)}`;
    const off = test.pValue < 0.001,
      settled = test.enough;
    root.dataset.verdict = !settled ? "" : off ? "off" : "fits";
    part("verdict").textContent = !all
      ? "Nothing is drawn yet."
      : !settled
        ? `${counted(all, "draw")}: too few to judge. Every bar must be expected five ` +
          `times, after ${test.needed} draws.`
        : off
          ? `This rule does not sample from p: ${numbers}.`
          : `${all} draws are consistent with p: ${numbers}.` + hidden(tv);
    const { kept, least } = theory(state.rule, p, q),
      rate = all ? (state.kept / all).toFixed(2) : "–";
    /** @type {Record<string, string>} */
    const told = {
      rejection: `1 − TV = ${kept.toFixed(2)}`,
      wrong: `1 − TV = ${kept.toFixed(2)}`,
      match: `${kept.toFixed(2)}, at least (1 − TV)/(1 + TV) = ${least?.toFixed(2)}`,
      block: `${kept.toFixed(2)}, against ${least?.toFixed(2)} where each is judged by itself`,
    };
    part("kept").textContent =
      `Guesses kept in a round: ${rate}; by theory ${told[state.rule]}. TV is the total ` +
      `variation distance, half the sum of all |p − q|: ${tv.toFixed(2)}.`;
  }

  /** @param {string} rule */
  function choice(rule) {
    const label = make("label", "ouro-dice-rule ouro-pill ouro-size-m"),
      input = make("input");
    Object.assign(input, {
      type: "radio",
      name: group,
      value: rule,
      checked: rule === state.rule,
    });
    input.addEventListener("change", () => {
      state.rule = rule;
      begin();
    });
    label.append(input, make("span", "", NAMES[rule]));
    return label;
  }

  /**
   * Return a slider for the weight of a token. It is at least 1: a token that is never expected has
   * no place in a chi-square test.
   * @param {"p" | "q"} name
   * @param {number} n
   */
  function slider(name, n) {
    const label = make("label", "ouro-range"),
      input = make("input"),
      value = make("output", "");
    Object.assign(input, { type: "range", min: 1, max: 100, value: state.weights[name][n] });
    for (const node of [input, value]) Object.assign(node.dataset, { of: name, n });
    input.setAttribute("aria-label", `${name} of ${TOKENS[n]}`);
    input.addEventListener("input", () => {
      state.weights[name][n] = Number(input.value);
      begin();
    });
    label.append(make("span", "", `${name}(${TOKENS[n]})`), value, input);
    return label;
  }

  const offered = Object.keys(NAMES).filter((rule) => rule in GAMES);
  part("rules").append(...offered.map(choice));
  for (const name of /** @type {("p" | "q")[]} */ (["p", "q"]))
    part(name).append(...TOKENS.map((_, n) => slider(name, n)));
  part("one").addEventListener("click", drawOne);
  part("many").addEventListener("click", drawMany);
  part("reset").addEventListener("click", () => {
    state.seed += 1; // other dice, or the same thousand would come again
    begin();
  });
  begin();
  if (props.drawn) drawMany();
}
