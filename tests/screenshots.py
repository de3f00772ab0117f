"""Pictures of the page for the README: make screenshots; `python -m tests.screenshots benchmark` draws the benchmark alone."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ouroboros_core.benchmark.report import Row
from ouroboros_core.locations import assets
from tests.browser import chromium, server
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
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"{url}/?__theme={scheme}")
                page.get_by_text("Ready:").wait_for(timeout=60_000)
                page.click("#generate")
                page.wait_for_selector('.ouro-run[data-done="false"]', timeout=60_000)
                page.wait_for_selector('.ouro-run[data-done="true"]', timeout=120_000)
                page.wait_for_timeout(1500)
                page.screenshot(path=folder / f"generate-{width}-{scheme}.png", full_page=True)
                page.locator("#token-view .ouro-rejected").first.click()
                page.locator("#token-view .ouro-timeline").scroll_into_view_if_needed()
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"card-{width}-{scheme}.png")
                page.get_by_role("tab", name="Race").click()
                page.get_by_role("combobox", name="Lane 4").click()
                page.get_by_role("option", name="Ouroboros", exact=True).click()
                page.click("#race")
                page.wait_for_selector('#race-view .ouro-run[data-done="true"]', timeout=120_000)
                page.wait_for_timeout(1500)
                page.locator("#race-view .ouro-slider").press("End")
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"race-{width}-{scheme}.png", full_page=True)
                page.get_by_role("tab", name="Drafts").click()
                page.wait_for_timeout(1500)
                page.screenshot(path=folder / f"drafts-{width}-{scheme}.png", full_page=True)
                page.close()
        _benchmark(browser, folder)


def _benchmark(browser: Any, folder: Path) -> None:
    """The README's figure, from the file that `make bench` wrote."""
    data = json.loads((assets() / "benchmark.json").read_text())
    rows = [Row(**{**row, "ci95": tuple(row["ci95"])}) for row in data["rows"]]
    place = data["environment"]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "benchmark.html"
        record_figures.write_page(
            record_figures.speedups_by_group(rows, f"{place['processor']}, {place['threads']} threads, {place['dtype']}"), path
        )
        page = browser.new_page(viewport={"width": 1200, "height": 560})
        page.goto(path.as_uri())
        page.wait_for_selector(".main-svg")
        page.wait_for_timeout(500)
        page.screenshot(path=folder / "benchmark.png")
        page.close()


if __name__ == "__main__":
    main(only_benchmark="benchmark" in sys.argv)
