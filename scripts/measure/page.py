"""Measure in headless Chromium what a visitor of the page waits for; or, with FOLDER, how fast the
live static site in it is.

Two visitors share a page with the embedded pair. The first asks for a run. The second asks for
another one while the first one's run is timed, and again while the first one measures a comparison.
Both must go on before and after. Then the slider of Compare moves row B, until the next frame after
its chart is drawn.

Of the site that `make static` writes: passes by rows, and speedups on own prompts. Plain decoding
and the method alternate in rounds, and reading the prompt counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ouroboros_core.benchmark.prompts import own_prompts
from tests.browser import chromium, file_server, server, wait_until_ready

REPEATS, MOVES = 5, 20
TIMING, COMPARING = "#token-view .ouro-run[data-timing]", '.ouro-compare[data-done="false"]'
FIRST, SECOND = "Why do we sleep?", "Name four colours."
NOTE = """window.marks = {};
setInterval(() => {
  const now = performance.now(), run = "#token-view .ouro-run:not([data-old])";
  const count = document.querySelectorAll(`${run} .ouro-text .ouro-token`).length;
  if (!marks.asked || !count) return;
  marks.first ??= now;
  if (count !== marks.count) Object.assign(marks, { count, last: now, free: undefined });
  if (!document.querySelector(".ouro-watch .ouro-buttons[data-busy]")) marks.free ??= now;
}, 10)"""
"""Note when a run was asked for, its first and last token, and when the next one can be."""
ASK = "window.marks = { asked: performance.now() }; document.querySelector('#generate').click()"
MOVE = """(at) => new Promise((done) => {
  const end = () => setTimeout(() => done(performance.now() - begun));
  const drawn = () => requestAnimationFrame(end);
  document.querySelector(".ouro-compare .ouro-plot").once("plotly_afterplot", drawn);
  const slider = document.querySelector(".ouro-compare-slide input"), begun = performance.now();
  slider.value = at % (Number(slider.max) + 1);
  slider.dispatchEvent(new Event("input"));
})"""

COPIES, OTHERS = (6, 49, 50, 51, 52, 56), (1, 2, 7, 9, 25, 33)
"""Prompts whose answer mostly repeats the prompt, and others, by their ids."""
METHODS, TOKENS = ("union", "suffix"), 64
ROWS, CONTEXT, ROUNDS = (1, 2, 4, 8), 100, 21
PASSES = """async ([folder, counts, past, rounds]) => {
  const { Pass, build } = await import(`${folder}pass.js`);
  const read = async (name) => (await fetch(folder + name)).arrayBuffer();
  const pass = await Pass.load(await read(`pass-${build()}.wasm`));
  const model = pass.model(await read("target.bin"), "target");
  const run = (start, count) => {
    const rows = Array.from({ length: count }, (_, n) => n);
    const positions = rows.map((n) => start + n);
    const seen = positions.map((n) => n + 1);
    const begin = Array(count + 1).fill(0);
    const began = performance.now();
    model.run(start, positions, positions, seen, begin, [], rows).free();
    return performance.now() - began;
  };
  run(0, past);
  for (const count of counts) for (let n = 0; n < 3; n++) run(past, count);
  const times = counts.map(() => []);
  for (let n = 0; n < rounds; n++) counts.forEach((count, at) => times[at].push(run(past, count)));
  return { build: build(), times };
}"""
BEGIN = """(folder) => new Promise((started, failed) => {
  const worker = new Worker(`${folder}worker.js`, { type: "module" });
  let shown, finish, number = 0;
  worker.addEventListener("message", ({ data }) => {
    if (data.failure) failed(new Error(data.failure));
    if (data.started) started();
    if (data.update) {
      const { view, error } = JSON.parse(data.update);
      shown = { ...shown, ...view, error };
    }
    if (data.ended) finish(shown);
  });
  window.compute = (ask) => new Promise((resolve) => {
    [shown, finish] = [{}, resolve];
    worker.postMessage({ number: ++number, ask });
  });
})"""


def visitor(browser: Any, url: str) -> Any:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page.goto(url)
    page.locator("#generate").wait_for()
    page.locator("#token-view .ouro-token").first.wait_for()
    page.evaluate(NOTE)
    return page


def wait(page: Any, prompt: str) -> tuple[float, float]:
    """Run a prompt; return the seconds from the click to the first token, and from the last token
    to the button *Generate*."""
    page.locator("#prompt textarea").fill(prompt)
    page.wait_for_timeout(500)
    page.evaluate(ASK)
    page.wait_for_function("() => marks.free", timeout=300_000)
    noted = page.evaluate("marks")
    return (noted["first"] - noted["asked"]) / 1e3, (noted["free"] - noted["last"]) / 1e3


def first_token(page: Any, goes_on: str, second: Any) -> float:
    """Return the seconds to the second visitor's first token while the first one's work goes on."""
    page.locator(goes_on).wait_for()
    seconds, _ = wait(second, SECOND)
    if not page.locator(goes_on).count():
        raise RuntimeError(f"{goes_on} has ended before the run beside it")
    return seconds


def waits(
    browser: Any, url: str, prompt: str = FIRST, repeats: int = REPEATS, moves: int = MOVES
) -> dict[str, Sequence[float]]:
    """Return the seconds of each repeat, and of each move of the slider."""
    first, second = visitor(browser, url), visitor(browser, url)
    back, timed = [], []
    for _ in range(repeats):
        back.append(wait(first, prompt)[1])
        timed.append(first_token(first, TIMING, second))
    first.get_by_role("tab", name="Compare", exact=True).click()
    first.locator(".ouro-compare .js-plotly-plot:not([data-due])").wait_for()
    moved = [first.evaluate(MOVE, at) / 1e3 for at in range(moves)]
    first.get_by_role("button", name="Measure here").click()
    compared = [first_token(first, COMPARING, second) for _ in range(repeats)]
    first.locator(".ouro-compare-stop").click()
    for page in (first, second):
        page.close()
    return {
        "from the last token to Generate": back,
        "to the first token beside a timing": timed,
        "to the first token beside a comparison": compared,
        "from the slider to the next frame": moved,
    }


def tiles(page: Any, method: str, prompt: str) -> dict[str, str]:
    """Run a prompt in the worker of the page; return the headline numbers by their labels."""
    run = {"max_new_tokens": TOKENS, "chat": True, "temperature": 0.0}
    ask = {"prompt": prompt, "method": method, "settings": {}, "run": run}
    update = page.evaluate("(ask) => window.compute(ask)", ask)
    if "tiles" not in update:
        sys.exit(f"{method} failed: {json.dumps(update)[:300]}")
    return {tile["label"]: tile["value"] for tile in update["tiles"]}


def speeds(page: Any, folder: str) -> None:
    """Print the milliseconds of a pass by rows, and the speedups of the methods."""
    measured = page.evaluate(PASSES, [folder, ROWS, CONTEXT, ROUNDS])
    medians = [median(times) for times in measured["times"]]
    for rows, milliseconds in zip(ROWS, medians, strict=True):
        cost = f"{milliseconds:.1f} ms, {milliseconds / medians[0]:.2f} passes over one row"
        print(f"{measured['build']} {rows} rows: {cost}")
    page.reload()
    page.evaluate(BEGIN, folder)
    questions = {question.id: question for question in own_prompts()}
    for name, ids in (("copies", COPIES), ("others", OTHERS)):
        for method in METHODS:
            speedups = []
            for question in (questions[number] for number in ids):
                numbers = tiles(page, method, question.turns[0])
                speedup, same = numbers["Speedup"], numbers["Identical text"]
                speedups.append(float(speedup.rstrip("×")))
                print(f"  {method} {question.id}: {speedup}, identical: {same}", flush=True)
            print(f"{name} {method}: {median(speedups):.2f}, least {min(speedups):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="?", type=Path, metavar="FOLDER")
    site = parser.parse_args().site
    if not site:
        with server(guard=False) as url, chromium() as browser:
            wait_until_ready(url)
            for name, seconds in waits(browser, url).items():
                print(f"seconds {name}: median {median(seconds):.3f}, worst {max(seconds):.3f}")
        print(f"load {os.getloadavg()[0]:.1f}")
        return
    folders = [path.parent.name for path in site.glob("live/*/files.json")]
    if not folders:
        sys.exit(f"{site} has no live page: run make static")
    with file_server(site) as url, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(600_000)
        page.goto(f"{url}index.html")
        speeds(page, f"./live/{folders[0]}/")
