"""What the page costs the browser, on a stream of a thousand tokens: make page-speed.

Prints script seconds of the main thread for the whole stream, bytes per token in the first and the
last third of it, and the time of a scrub step: from a key press to the laid-out page.
"""

from __future__ import annotations

import statistics
from typing import Any

from tests.browser import chromium, server

TOKENS = 1000

PROGRAM = f"""
import runpy, time
from dataclasses import replace
from itertools import accumulate
from ouroboros_core.trace.trace import Trace
from ouroboros_core.trace.file import read_trace
from ouroboros_core.locations import assets
from ouroboros_core.trace.summary import Summary
from visualize.race import job as showing
from visualize.run import figures
from visualize.run import view as views
from visualize.server import models
from visualize.server import runner
from visualize.server.updates import Finished, Progress, Started

recorded = read_trace((assets() / "traces" / "java-ouroboros.json").read_bytes())
steps, texts = [], []
while len(texts) < {TOKENS}:
    steps += [replace(step, index=len(steps) + n) for n, step in enumerate(recorded.steps)]
    texts += recorded.texts
trace = replace(recorded, steps=tuple(steps), texts=tuple(texts))

class Stream(runner.Runner):
    def run(self, task, compare, charts=True, memory=None, **_):
        common = {{"run": "stream", "badge": "live", "title": "a stream", "prompt": "", "chat": False}}
        view = {{**common, "seq": 1, "from": 0, "steps": [], "status": "begun", "tiles": []}}
        yield Started("stream", replace(trace, steps=(), texts=()), None, view)
        drawn = 0
        ends = list(accumulate(len(step.tokens) for step in steps))
        for seq, shown in enumerate(range(0, len(steps), 3), 2):
            end = min(shown + 3, len(steps))
            first = ends[shown - 1] if shown else 0
            new = texts[first : ends[end - 1]]
            part = views.steps_view(steps[shown:end], new, task.sampling, views.piece_of(trace))
            view = {{"run": "stream", "seq": seq, "from": shown, "steps": part, "status": f"step {{end}}"}}
            charts = figures.growing(steps[:end]) if showing.draw_anew(end, drawn) else {{}}
            yield Progress(tuple(steps[shown:end]), tuple(new), {{}}, view, charts)
            drawn = end if showing.draw_anew(end, drawn) else drawn
            time.sleep(1 / 20)
        view = views.run_view(Summary(trace), run="stream", seq=10**6, badge_text="live")
        yield Finished(trace, None, None, None, view, figures.all_charts(Summary(trace)))

runner.Runner = Stream
models.Models.start = lambda self: None
models.Models.ready = True
models.Models.state = lambda self, name="": "Ready: a recorded run."
runpy.run_path("app.py", run_name="__main__")
"""

SCRUB = """async () => {
  const slider = document.querySelector("#token-view .ouro-slider"), times = [];
  slider.focus();
  for (const key of [...Array(300).fill("ArrowLeft"), ...Array(100).fill("ArrowRight"), "Home", "End"]) {
    const begun = performance.now();
    slider.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    document.querySelector("#token-view .ouro-text").getBoundingClientRect();
    times.push(performance.now() - begun);
    await new Promise(requestAnimationFrame);
  }
  return times;
}"""


def measure(page: Any, url: str) -> dict[str, float]:
    """Figures of one stream."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("Network.enable")
    received: list[int] = []
    session.on("Network.dataReceived", lambda event: received.append(event["dataLength"]))
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    page.wait_for_timeout(1000)

    def script() -> float:
        return float(
            {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}[
                "ScriptDuration"
            ]
        )

    def at(tokens: int) -> tuple[int, int]:
        """(tokens, bytes) when so many tokens are there."""
        count = "document.querySelectorAll('#token-view .ouro-token').length"
        page.wait_for_function(f"{count} >= {tokens}", timeout=120_000, polling=150)
        there = page.evaluate(count)
        return there, sum(received)

    received.clear()
    before = script()
    page.click("#generate")
    page.wait_for_selector('#token-view .ouro-run[data-done="false"]', timeout=60_000)
    reached = [at(tokens) for tokens in (20, TOKENS // 3, 2 * TOKENS // 3, TOKENS - 20)]
    at(TOKENS)
    spent = script() - before
    page.wait_for_selector('#token-view .ouro-run[data-done="true"]', timeout=60_000)
    page.wait_for_timeout(1500)
    parts = [
        (reached[n + 1][1] - reached[n][1]) / (reached[n + 1][0] - reached[n][0]) for n in (0, 2)
    ]
    scrubs = page.evaluate(SCRUB)
    return {
        "script seconds": spent,
        "bytes per token, first third": parts[0],
        "bytes per token, last third": parts[1],
        "scrub step, median ms": statistics.median(scrubs[:-2]),
        "scrub step, 99 in 100 within ms": sorted(scrubs[:-2])[int(0.99 * len(scrubs[:-2]))],
        "jump over all 1,000 tokens, ms": max(scrubs[-2:]),
    }


def main() -> None:
    with server(program=PROGRAM) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        for name, value in measure(page, url).items():
            print(f"{name}: {value:.2f}")


if __name__ == "__main__":
    main()
