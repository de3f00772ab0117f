"""Pictures of the page for the README and the documentation: make screenshots.

`python -m scripts.screenshots animation` or `benchmark` makes that one alone.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from ouroboros_core.benchmark.report import Row
from ouroboros_core.locations import assets
from tests.browser import chromium, server
from tests.visitor import open_tab
from visualize import record_figures

PICTURES = ((1440, 900, "light"), (1440, 900, "dark"), (390, 844, "light"))
"""Width, height and colour scheme of each set of pictures."""
FRAME, FRAMES_A_SECOND, COLOURS = (1120, 700), 4, 48
"""The animated picture: size of a frame, and what keeps the file below three megabytes."""


def main(what: str = "all") -> None:
    folder = assets() / "screenshots"
    folder.mkdir(exist_ok=True)
    with server(guard=False) as url, chromium() as browser:
        if what in ("all", "animation"):
            _animate(browser, url, folder / "watch.gif")
        if what == "all":
            for width, height, scheme in PICTURES:
                size = {"width": width, "height": height}
                still = browser.new_context(viewport=size, reduced_motion="reduce")
                page = still.new_page()
                page.goto(f"{url}/?__theme={scheme}")
                page.get_by_text("Ready:").wait_for(timeout=60_000)

                def shoot(
                    name: str, page: Any = page, suffix: str = f"{width}-{scheme}", **more: Any
                ) -> None:
                    page.wait_for_timeout(1200)
                    page.screenshot(path=folder / f"{name}-{suffix}.png", **more)

                for place in (_watch, _race, _sweep, _results, _runs, _learn):
                    place(page, shoot)
                still.close()
        if what in ("all", "benchmark"):
            _benchmark(browser, folder)


def _watch(page: Any, shoot: Callable[..., None]) -> None:
    shoot("watch")
    page.locator("#token-view .ouro-token").nth(40).click()
    shoot("card")
    page.keyboard.press("Escape")


def _animate(browser: Any, url: str, path: Path) -> None:
    """The page as it plays its first run, as a visitor sees it who has just come."""
    width, height = FRAME
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{url}/?__theme=light")
    page.wait_for_selector("#token-view .ouro-token", state="attached")
    frames: list[Any] = []
    playing = "document.querySelector('#token-view .ouro-step-button[title^=Pause]')"
    page.wait_for_function(playing)
    while page.evaluate(f"!!{playing}") and len(frames) < 60:
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        page.wait_for_timeout(1000 / FRAMES_A_SECOND)
    frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    palette = frames[-1].quantize(COLOURS)
    drawn = [frame.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE) for frame in frames]
    shown = [round(1000 / FRAMES_A_SECOND)] * (len(drawn) - 1) + [4000]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=shown, loop=0)
    page.close()


def _race(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Race")
    page.get_by_role("combobox", name="Lane 4").click()
    page.get_by_role("option", name="Ouroboros", exact=True).click()
    page.click("#race")
    page.wait_for_selector('#race-view .ouro-run[data-done="true"]', timeout=120_000)
    page.wait_for_timeout(1500)
    page.locator("#race-view .ouro-slider").press("End")
    shoot("race")


def _sweep(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Sweep")
    page.locator("#sweep-prompts textarea").fill("What is gravity?")
    page.click("#sweep")
    page.get_by_text("Done.", exact=True).wait_for(timeout=240_000)
    shoot("sweep")


def _learn(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Learn")
    page.wait_for_selector("#learn-view .ouro-token")
    page.locator(".ouro-learn-chapter").nth(5).click()
    page.locator(".ouro-learn-next").click()
    shoot("learn")
    page.locator(".ouro-learn-chapter").nth(7).click()
    for _ in range(2):
        page.locator(".ouro-learn-next").click()
    page.wait_for_selector(".ouro-theory-speedup .main-svg")
    page.evaluate("scrollTo(0, 0)")
    shoot("theory")


def _runs(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Recorded runs")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#diff-view .ouro-segment")
    shoot("runs")


def _results(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Results")
    page.wait_for_timeout(1500)
    shoot("results")


def _benchmark(browser: Any, folder: Path) -> None:
    """The figure of docs/benchmarks.md, from the file that `make bench` wrote."""
    data = json.loads((assets() / "benchmark.json").read_text())
    rows = [Row(**{**row, "ci95": tuple(row["ci95"])}) for row in data["rows"]]
    environment = data["environment"]
    machine = f"{environment['processor']}, {environment['threads']} threads"
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "benchmark.html"
        record_figures.write_page(
            record_figures.speedups_by_group(
                rows,
                f"{machine}, {environment['dtype']}",
            ),
            path,
        )
        page = browser.new_page(viewport={"width": 1200, "height": 560})
        page.goto(path.as_uri())
        page.wait_for_selector(".main-svg")
        page.wait_for_timeout(500)
        page.screenshot(path=folder / "benchmark.png")
        page.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
