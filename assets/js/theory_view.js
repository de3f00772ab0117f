// The theory's two curves with sliders, and the visitor's own runs as points.
import { make } from "./dom.js";
import { Plot } from "./plot.js";
import { runs } from "./runs.js";
import { wording } from "./words.js";

export function mount(element, props) {
  const words = wording(props.words), { say } = words;
  const root = element.querySelector(".ouro-theory");
  const part = (name) => root.querySelector(".ouro-theory-" + name);
  const looks = new Map(props.looks.map((look) => [look.look, look]));
  const DEEPEST = 16;
  const chosen = { alpha: 0.7, gamma: 4, cost: 0.15 };
  const plots = { tokens: new Plot(part("tokens"), looks, words, props.plotly), speedup: new Plot(part("speedup"), looks, words, props.plotly) };

  // Leviathan et al., arXiv 2211.17192: equation 1 and theorem 3.8.
  const expected = (alpha, gamma) => (alpha >= 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha));
  const faster = (alpha, gamma, cost) => expected(alpha, gamma) / (gamma * cost + 1);
  const gammas = Array.from({ length: DEEPEST + 1 }, (_, gamma) => gamma);
  const ideal = () => gammas.reduce((best, gamma) => (faster(chosen.alpha, gamma, chosen.cost) > faster(chosen.alpha, best, chosen.cost) + 1e-12 ? gamma : best), 0);

  function slider(name, low, high, step) {
    const label = make("label", "ouro-theory-slider"), input = make("input"), value = make("output", "");
    Object.assign(input, { type: "range", min: low, max: high, step, value: chosen[name] });
    input.name = name;
    const shown = () => (value.textContent = input.value);
    input.addEventListener("input", () => {
      chosen[name] = Number(input.value);
      shown();
      paint();
    });
    shown();
    label.append(make("span", "", say("theory." + name)), input, value);
    part("sliders").append(label);
  }

  function curve(plot, name, of, own) {
    const best = name === "speedup" ? ideal() : chosen.gamma;
    const line = { x: gammas, y: gammas.map(of), mode: "lines+markers", name: say("theory.curve"), line: { color: "#0072B2", width: 2.5 }, meta: { look: "draft" } };
    const here = { x: [chosen.gamma], y: [of(chosen.gamma)], mode: "markers", name: say("theory.chosen"), marker: { size: 14, symbol: "circle-open", line: { width: 3 } }, meta: { look: "correction" } };
    const data = [line, here];
    if (name === "speedup")
      data.push({ x: [best], y: [of(best)], mode: "markers", name: say("theory.ideal"), marker: { size: 14, symbol: "star" }, meta: { look: "bonus" } });
    if (own.length)
      data.push({ x: own.map((run) => run.gamma), y: own.map((run) => run[name]), text: own.map((run) => run.name), mode: "markers", name: say("theory.own"), marker: { size: 11, symbol: "diamond" }, meta: { look: "suffix" }, hovertemplate: "%{text}: %{y:.2f}<extra></extra>" });
    const layout = {
      xaxis: { title: { text: say("theory.gamma") }, zeroline: false, automargin: true, range: [-0.4, DEEPEST + 0.4] },
      yaxis: { title: { text: say("theory.axis." + name) }, rangemode: "tozero", automargin: true },
      margin: { l: 56, r: 16, t: 8, b: 48 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
      hovermode: "closest",
    };
    plot.show({ run: "", figure: { data, layout } });
  }

  function paint() {
    const best = ideal(), { alpha, gamma, cost } = chosen;
    curve(plots.tokens, "tokens", (g) => expected(alpha, g), runs());
    curve(plots.speedup, "speedup", (g) => faster(alpha, g, cost), runs());
    const facts = { tokens: expected(alpha, gamma).toFixed(2), speedup: faster(alpha, gamma, cost).toFixed(2), gamma, best, most: faster(alpha, best, cost).toFixed(2) };
    part("said").textContent = say("theory.said", facts);
    part("runs").textContent = runs().length ? say("theory.runs", { n: runs().length }) : say("theory.none");
  }

  slider("alpha", 0, 0.99, 0.01);
  slider("gamma", 0, DEEPEST, 1);
  slider("cost", 0, 1, 0.01);
  paint();
  document.addEventListener("ouro:run", paint);
}
