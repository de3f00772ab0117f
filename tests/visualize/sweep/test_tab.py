"""The tab Sweep in a real browser: begun, stopped, resumed, a cell opened; and its files."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.visitor import open_tab, pressed, settle, tokens

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

PROMPT = "Count from one to ten in words."


def fill(page: Any, selector: str, text: str) -> None:
    page.locator(f"{selector} :is(textarea, input)").first.fill(text)
    page.keyboard.press("Tab")


def set_up(page: Any, first: str, second: str) -> None:
    open_tab(page, "Sweep")
    page.wait_for_selector("#sweep-view .ouro-sweep-status")
    assert not page.is_visible("#sweep-clock"), "there is nothing to see on any clock"
    assert page.is_disabled("#sweep-stop") and page.is_disabled("#sweep-resume"), "nothing runs"
    page.wait_for_selector("#chart-recorded .main-svg")
    page.get_by_role("button", name="More").locator("visible=true").click()
    settle(page)
    fill(page, "#values-1", first)
    page.get_by_role("combobox", name="And vary", exact=True).click()
    page.get_by_role("option", name="Temperature", exact=True).click()
    fill(page, "#values-2", second)
    fill(page, "#sweep-prompts", PROMPT)
    page.get_by_label("number input for Maximum new tokens of each run").fill("16")
    page.keyboard.press("Tab")
    page.get_by_label("number input for repeats").fill("1")
    page.keyboard.press("Tab")


def count(page: Any) -> tuple[int, int]:
    done, total = re.match(
        r"(\d+) of (\d+) runs", page.locator(".ouro-sweep-count").inner_text()
    ).groups()  # type: ignore[union-attr]
    return int(done), int(total)


def drawn(page: Any) -> list[list[float | None]]:
    found: list[list[float | None]] = page.evaluate(
        "document.querySelector('#chart-sweep .ouro-plot').data[0].z.map(r => [...r])"
    )
    return found


@pytest.mark.slow
def test_a_sweep_is_stopped_and_resumed_and_a_cell_opens_in_generate(page: Any) -> None:
    set_up(page, "1,2,4", "0,0.5,1")
    page.get_by_text(
        "9 runs of 16 tokens (9 settings, 1 prompt, 1 repeat), and 3 of plain decoding: about"
    ).wait_for()
    page.click("#sweep")
    # At once, from inside: a click from here may come after the last run.
    page.wait_for_function(
        """() => {
          const some = /^[3-5] of 9/.test(document.querySelector(".ouro-sweep-count").textContent);
          const chart = document.querySelector("#chart-sweep .ouro-plot");
          if (some) window.early = !!(chart && chart.data && chart.data[0] && chart.data[0].z);
          if (some) document.querySelector("#sweep-stop").click();
          return some;
        }""",
        timeout=120_000,
    )
    page.get_by_text("Stopped. What was measured stays").wait_for()
    page.wait_for_selector("#sweep-stop:disabled")
    assert not page.evaluate("window.early"), "drawing takes no time from what is measured"
    page.wait_for_function("(document.querySelector('#chart-sweep .ouro-plot').data?.[0] || {}).z")
    page.wait_for_timeout(1500)
    before = count(page)
    assert before[1] == 9 and before[0] < 9
    begun = page.locator("#sweep-view button[data-cell]").all()
    measured = {
        b.get_attribute("data-cell"): b.evaluate("b => b.closest('tr').textContent") for b in begun
    }
    page.click("#sweep-resume")
    page.get_by_text("Done.", exact=True).wait_for(timeout=180_000)
    assert count(page) == (9, 9)
    page.wait_for_selector("#sweep-resume:disabled")  # nothing is left
    rows = page.locator("#sweep-view button[data-cell]").all()
    assert len(rows) == 9
    after = {
        b.get_attribute("data-cell"): b.evaluate("b => b.closest('tr').textContent") for b in rows
    }
    strip = {cell: text.replace("Open", "") for cell, text in after.items()}
    assert all(
        strip[cell] == text.replace("Open", "") for cell, text in measured.items() if cell
    ), "what was measured stays"
    speeds = drawn(page)
    assert len(speeds) == 3 and all(value for line in speeds for value in line)
    best = max(
        (value, y, x)
        for y, line in enumerate(speeds)
        for x, value in enumerate(line)
        if value is not None
    )
    page.wait_for_timeout(500)  # the end of the sweep draws on the clock that was chosen then
    assert (
        f"gamma={(1, 2, 4)[best[1]]}, temperature={(0.0, 0.5, 1.0)[best[2]]}, {best[0]:.2f}×"
        in page.locator(".ouro-sweep-said").inner_text()
    )
    page.get_by_role("combobox", name="Speedup on", exact=True).click()
    page.get_by_role("option", name="modelled: H100, Llama-3 8B", exact=True).click()
    page.get_by_text("Modelled on H100, Llama-3 8B: best is gamma=").wait_for()
    assert drawn(page) != speeds and len(drawn(page)) == 3
    page.locator("#chart-parallel").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-parallel .parcoords", state="attached")
    emit = (
        "document.querySelector('#chart-sweep .ouro-plot').emit('plotly_click', "
        "{points: [{x: 0, y: 2, customdata: 6}]})"
    )
    page.evaluate(emit)
    page.wait_for_function(
        "document.querySelector('#token-view .ouro-title').textContent.includes('draft length 4')"
    )
    assert page.locator("#token-view").is_visible(), "the tab Generate is open"
    assert len(tokens(page)) == 16
    assert page.locator("#prompt textarea").input_value() == PROMPT
    assert page.get_by_label("number input for Draft length (gamma)").input_value() == "4"
    assert not pressed(page, "auto", "speculative")


def test_what_was_measured_is_saved_as_json_and_as_csv(page: Any) -> None:
    set_up(page, "1,3", "0")
    page.get_by_text(
        "2 runs of 16 tokens (2 settings, 1 prompt, 1 repeat), and 1 of plain decoding: about"
    ).wait_for()
    page.click("#sweep")
    page.get_by_text("Done.", exact=True).wait_for(timeout=120_000)
    files = {}
    for kind in ("json", "csv"):
        with page.expect_download() as download:
            page.locator(f'#sweep-save [data-kind="{kind}"]').click()
        files[kind] = Path(download.value.path()).read_text(encoding="utf-8")
    data = json.loads(files["json"])
    rows = list(csv.DictReader(io.StringIO(files["csv"])))
    assert [row["gamma"] for row in rows] == ["1", "3"]
    assert [point["cell"] for point in data["points"]] == [0, 1]
    for row, point in zip(rows, data["points"], strict=True):
        mine = sum(point["seconds"].values())
        plain = sum(point["plain_seconds"].values())
        assert float(row["speedup"]) == pytest.approx(
            point["tokens"] / mine / (point["plain_tokens"] / plain)
        )
    assert page.evaluate("document.querySelector('#chart-sweep .ouro-plot').data[0].z.length") == 2


def test_bad_input_is_said_and_nothing_is_lost(page: Any) -> None:
    set_up(page, "1,99", "0")
    page.get_by_text("gamma must be auto, or between 1 and 32, got 99").first.wait_for()
    page.click("#sweep")
    page.locator(".toast-body").get_by_text(
        "gamma must be auto, or between 1 and 32, got 99"
    ).wait_for()
    assert page.locator("#sweep-prompts textarea").input_value() == PROMPT
