"""Pictures of the page for README and docs: make screenshots; `python -m scripts.screenshots
benchmark` draws the benchmark alone."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ouroboros_core.benchmark.report import Row
from ouroboros_core.locations import assets
from tests.browser import chromium, server
from tests.visitor import open_tab
from visualize import record_figures

SIZES = ((1440, 1000), (390, 844))


def main(only_benchmark: bool = False) -> None:
    folder = assets() / "screenshots"
    folder.mkdir(exist_ok=True)
    if only_benchmark:
        with chromium() as browser:
            _benchmark(browser, folder)
        return
    with server(guard=False) as url, chromium() as browser:
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page.goto(f"{url}/?__theme={scheme}")
                page.get_by_text("Ready:").wait_for(timeout=60_000)

                def shoot(
                    name: str, page: Any = page, suffix: str = f"{width}-{scheme}", **more: Any
                ) -> None:
                    page.wait_for_timeout(1200)
                    page.screenshot(path=folder / f"{name}-{suffix}.png", **more)

                for tab in (_generate, _race, _sweep, _learn, _traces, _drafts):
                    tab(page, shoot)
                page.close()
        _benchmark(browser, folder)


def _generate(page: Any, shoot: Callable[..., None]) -> None:
    shoot("before")
    page.click("#generate")
    writing = "document.querySelector('#token-view .ouro-run').dataset.done === 'false'"
    page.wait_for_function(
        f"{writing} && document.querySelectorAll('#token-view .ouro-token').length > 30",
        timeout=60_000,
    )
    page.screenshot(path=assets() / "screenshots" / f"during-{_suffix(page)}.png")
    page.wait_for_selector('.ouro-run[data-done="true"]', timeout=120_000)
    shoot("generate", full_page=True)
    page.locator("#token-view .ouro-rejected").first.click()
    page.locator("#token-view .ouro-timeline").scroll_into_view_if_needed()
    shoot("card")


def _suffix(page: Any) -> str:
    dark = page.evaluate("document.body.classList.contains('dark')")
    return f"{page.viewport_size['width']}-{'dark' if dark else 'light'}"


def _race(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Race")
    page.get_by_role("combobox", name="Lane 4").click()
    page.get_by_role("option", name="Ouroboros", exact=True).click()
    page.click("#race")
    page.wait_for_selector('#race-view .ouro-run[data-done="true"]', timeout=120_000)
    page.wait_for_timeout(1500)
    page.locator("#race-view .ouro-slider").press("End")
    shoot("race", full_page=True)


def _sweep(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Sweep")
    page.get_by_role("combobox", name="and", exact=True).click()
    page.get_by_role("option", name="temperature", exact=True).click()
    page.locator("#values-2 :is(textarea, input)").first.fill("0,0.7")
    page.keyboard.press("Tab")
    page.click("#sweep")
    page.get_by_text("Done.", exact=True).wait_for(timeout=240_000)
    shoot("sweep", full_page=True)


def _learn(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Learn")
    page.wait_for_selector("#learn-view .ouro-token")
    page.locator(".ouro-learn-chapter").nth(5).click()
    page.locator(".ouro-learn-next").click()
    shoot("learn", full_page=True)
    page.locator(".ouro-learn-chapter").nth(7).click()
    for _ in range(2):
        page.locator(".ouro-learn-next").click()
    page.wait_for_selector(".ouro-theory-speedup .main-svg")
    page.evaluate("scrollTo(0, 0)")
    shoot("theory")


def _traces(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Traces")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#diff-view .ouro-segment")
    shoot("traces", full_page=True)


def _drafts(page: Any, shoot: Callable[..., None]) -> None:
    open_tab(page, "Drafts")
    shoot("drafts", full_page=True)


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
    main(only_benchmark="benchmark" in sys.argv)
