"""Measure in a browser what a visitor of the page waits for: the button, the first token beside
another visitor's work, and a chart.

Two visitors share a page with the embedded pair. The first asks for a run. The second asks for
another one while the first one's run is timed, and again while the first one measures a comparison.
Both must go on before and after. Then the slider of Compare moves row B, until the next frame after
its chart is drawn.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from statistics import median
from typing import Any

from tests.browser import chromium, server, wait_until_ready

TIMING, COMPARING = "#token-view .ouro-run[data-timing]", '.ouro-compare[data-done="false"]'
SECOND = "Name four colours."
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


def beside(page: Any, goes_on: str, second: Any) -> float:
    """Return the seconds to the second visitor's first token while the first one's work goes on."""
    page.locator(goes_on).wait_for()
    seconds, _ = wait(second, SECOND)
    if not page.locator(goes_on).count():
        raise RuntimeError(f"{goes_on} has ended before the run beside it")
    return seconds


def measure(
    browser: Any, url: str, prompt: str, repeats: int, moves: int
) -> dict[str, Sequence[float]]:
    """Return the seconds of each repeat, and of each move of the slider."""
    first, second = visitor(browser, url), visitor(browser, url)
    back, timed = [], []
    for _ in range(repeats):
        back.append(wait(first, prompt)[1])
        timed.append(beside(first, TIMING, second))
    first.get_by_role("tab", name="Compare", exact=True).click()
    first.locator(".ouro-compare .js-plotly-plot:not([data-due])").wait_for()
    moved = [first.evaluate(MOVE, at) / 1e3 for at in range(moves)]
    first.get_by_role("button", name="Measure here").click()
    compared = [beside(first, COMPARING, second) for _ in range(repeats)]
    first.locator(".ouro-compare-stop").click()
    for page in (first, second):
        page.close()
    return {
        "from the last token to Generate": back,
        "to the first token beside a timing": timed,
        "to the first token beside a comparison": compared,
        "from the slider to the next frame": moved,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", default="Why do we sleep?")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--moves", type=int, default=20, metavar="N")
    arguments = parser.parse_args()
    with server(guard=False) as url, chromium() as browser:
        wait_until_ready(url)
        for name, seconds in measure(browser, url, **vars(arguments)).items():
            print(f"seconds {name}: median {median(seconds):.3f}, worst {max(seconds):.3f}")
    print(f"load {os.getloadavg()[0]:.1f}")
