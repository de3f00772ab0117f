// @ts-check
// The theory's two curves with sliders, and the visitor's own runs as points.
import { make } from "../kit/dom.js";
import { INK, Plot } from "../kit/plot.js";
import { ownRuns } from "../kit/own_runs.js";
/** @import { Mount } from "../kit/types" */

const OWN = "#0F766E"; // of the visitor's runs; no token has it

/** @type {Mount} */
export function mount(element, props) {
  const root = element.querySelector(".ouro-theory");
  /** @param {string} name */
  const part = (name) => root.querySelector(".ouro-theory-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const DEEPEST = 16;
  /** @type {Record<string, string>} */
  const SLIDERS = {
    alpha: "α: chance that a guess is accepted",
    gamma: "γ: guesses per step",
    cost: "c: cost of a draft pass, in target passes",
    row: "r: cost of one more row, in target passes",
  };
  /** @type {Record<string, string>} */
  const AXES = { tokens: "tokens per step", speedup: "speedup" };
  const PLAIN = {
    type: "line",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: 1,
    y1: 1,
    line: { color: "#888", width: 1.5, dash: "dash" },
  }; // as fast as plain decoding
  /** @type {Record<string, number>} */
  const chosen = { alpha: 0.7, gamma: 4, cost: 0.15, row: 0 };
  /** Rows of a lookahead window of seven columns and n-grams of five tokens. */
  const WINDOW = 27;
  /** @param {string} name */
  const chart = (name) => new Plot(part(name), looks, props.plotly);
  /**
   * Functions that set a slider.
   * @type {Map<string, (value: number) => void>}
   */
  const sliders = new Map();
  const plots = { tokens: chart("tokens"), speedup: chart("speedup") };

  /**
   * Leviathan et al., arXiv 2211.17192: equation 1 and theorem 3.8, in which rows cost nothing.
   * @param {number} alpha
   * @param {number} gamma
   */
  const expected = (alpha, gamma) =>
    alpha >= 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha);
  /**
   * @param {number} alpha
   * @param {number} gamma
   * @param {number} cost
   */
  const faster = (alpha, gamma, cost) => expected(alpha, gamma) / (gamma * (cost + chosen.row) + 1);
  const gammas = Array.from({ length: DEEPEST + 1 }, (_, gamma) => gamma);
  const ideal = () =>
    gammas.reduce(
      (best, gamma) =>
        faster(chosen.alpha, gamma, chosen.cost) > faster(chosen.alpha, best, chosen.cost) + 1e-12
          ? gamma
          : best,
      0,
    );

  /**
   * Return the alpha at which a step yields as many tokens as it costs plain steps, or null if
   * there is no such alpha.
   * @param {number} gamma
   * @param {number} cost
   */
  function even(gamma, cost) {
    let low = 0,
      high = 1;
    if (faster(1, gamma, cost) < 1) return null;
    for (let n = 0; n < 40; n++) {
      const middle = (low + high) / 2;
      if (faster(middle, gamma, cost) < 1) low = middle;
      else high = middle;
    }
    return high;
  }

  /**
   * Return "γ = 4", on one line.
   * @param {number} gamma
   */
  const is = (gamma) => `γ\u00a0=\u00a0${gamma}`;
  /**
   * @param {number} gamma
   * @param {number | null} rate
   */
  const pays = (gamma, rate) =>
    rate === null
      ? `With ${is(gamma)} even full acceptance would not pay. `
      : `To break even with ${is(gamma)}, α must be at least ${rate.toFixed(2)}. `;

  /**
   * @param {string} name
   * @param {number} low
   * @param {number} high
   * @param {number} step
   */
  function slider(name, low, high, step) {
    const label = make("label", "ouro-range"),
      input = make("input"),
      value = make("output", "");
    Object.assign(input, { type: "range", min: low, max: high, step, value: chosen[name] });
    input.name = name;
    label.dataset.part = name;
    const shown = () => (value.textContent = input.value);
    input.addEventListener("input", () => {
      chosen[name] = Number(input.value);
      shown();
      paint();
    });
    sliders.set(name, (now) => {
      chosen[name] = now;
      input.value = String(now);
      shown();
    });
    shown();
    label.append(make("span", "", SLIDERS[name]), input, value);
    part("sliders").append(label);
  }

  /**
   * @param {Plot} plot
   * @param {"tokens" | "speedup"} name
   * @param {(gamma: number) => number} of
   * @param {ReturnType<typeof ownRuns>} own
   */
  function curve(plot, name, of, own) {
    const best = name === "speedup" ? ideal() : chosen.gamma;
    const line = {
      x: gammas,
      y: gammas.map(of),
      mode: "lines+markers",
      name: "by theory",
      line: { color: INK, width: 2.5 },
    };
    const here = {
      x: [chosen.gamma],
      y: [of(chosen.gamma)],
      mode: "markers",
      name: "your γ",
      marker: { color: INK, size: 14, symbol: "circle-open", line: { width: 3 } },
    };
    /** @type {any[]} */
    const data = [line, here];
    if (name === "speedup")
      data.push({
        x: [best],
        y: [of(best)],
        mode: "markers",
        name: "ideal γ",
        marker: { color: INK, size: 14, symbol: "star" },
      });
    if (own.length)
      data.push({
        x: own.map((run) => run.gamma),
        y: own.map((run) => run[name]),
        text: own.map((run) => run.name),
        mode: "markers",
        name: "your runs",
        marker: { color: OWN, size: 11, symbol: "diamond" },
        hovertemplate: "%{text}: %{y:.2f}<extra></extra>",
      });
    const layout = {
      xaxis: {
        title: { text: SLIDERS.gamma },
        zeroline: false,
        automargin: true,
        range: [-0.4, DEEPEST + 0.4],
      },
      yaxis: { title: { text: AXES[name] }, range: [0, highest(name)], automargin: true },
      margin: { l: 56, r: 16, t: 8, b: 48 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
      hovermode: "closest",
      shapes: name === "speedup" ? [PLAIN] : [],
    };
    plot.show({ run: "", figure: { data, layout } });
  }

  /**
   * Return the end of an axis: where rows cost nothing, so that a curve is seen to sink as they
   * become expensive.
   * @param {"tokens" | "speedup"} name
   */
  function highest(name) {
    const { alpha, cost } = chosen;
    const free = gammas.map((gamma) =>
      name === "tokens" ? expected(alpha, gamma) : expected(alpha, gamma) / (gamma * cost + 1),
    );
    const own = ownRuns().map((run) => run[name]);
    return 1.08 * Math.max(...free, ...own, 1);
  }

  function paint() {
    const best = ideal(),
      { alpha, gamma, cost } = chosen;
    curve(plots.tokens, "tokens", (g) => expected(alpha, g), ownRuns());
    curve(plots.speedup, "speedup", (g) => faster(alpha, g, cost), ownRuns());
    const tokens = expected(alpha, gamma).toFixed(2);
    const speedup = faster(alpha, gamma, cost).toFixed(2),
      most = faster(alpha, best, cost).toFixed(2);
    part("said").textContent =
      `With ${is(gamma)} a step yields ${tokens} tokens and is ${speedup}× as fast as plain ` +
      `decoding. ` +
      `The ideal γ is ${best}, with ${most}×. ` +
      (gamma ? pays(gamma, even(gamma, cost)) : "") +
      (chosen.row
        ? `A lookahead window adds ${WINDOW} rows to a pass, and would make each ` +
          `pass ${(1 + WINDOW * chosen.row).toFixed(2)}× as long.`
        : `More rows in a pass cost nothing here: raise r to see what a lookahead window costs.`);
    part("runs").textContent = ownRuns().length
      ? `${ownRuns().length} of your own runs are points here, at the mean length of their proposals.`
      : "";
  }

  part("said").dataset.part = "result";
  slider("alpha", 0, 0.99, 0.01);
  slider("gamma", 0, DEEPEST, 1);
  slider("cost", 0, 1, 0.01);
  slider("row", 0, 0.3, 0.005);
  paint();
  document.addEventListener("ouro:run", paint);
  document.addEventListener("ouro:theory", ({ detail }) => {
    for (const [name, now] of Object.entries(detail)) sliders.get(name)(now);
    paint();
  });
}
