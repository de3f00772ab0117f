"""Compare in a browser, mounted from disk with recorded runs: no server, no model."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.sweeps.grid import Axis, Grid
from tests.visitor import view_alone
from tests.visualize.compare.test_view import by_rule, one_length
from visualize.compare import view as compare_view
from visualize.compare.comparison import Comparison, Plan
from visualize.compare.components import COMPARE_VIEW, facts
from visualize.gallery import runs as gallery

pytestmark = pytest.mark.browser

ROWS = """rows => rows.map(row => [
  Number(row.dataset.lane),
  row.querySelector('.ouro-strip')?.getBoundingClientRect().width ?? 0,
  row.hasAttribute('data-best'),
  row.innerText,
])"""
PAIR = "rows => rows.filter(row => row.querySelector('b.ouro-compare-letter'))\
.map(row => [row.querySelector('b.ouro-compare-letter').textContent, Number(row.dataset.lane)])"


@cache
def filled() -> dict[str, Any]:
    """A comparison of three draft lengths and another method; recorded runs of one prompt stand in
    for its runs."""
    names = ("autoregressive", "multi_candidate", "speculative", "glide", "eagle3")
    runs = [gallery.paced(f"fibonacci-{name}") for name in names]
    plan = Plan(
        prompts=(runs[0].prompt.text,),
        grid=Grid("speculative", (Axis("gamma", (2, 4, 8)),)),
        others=("eagle3",),
        tokens=96,
        rounds=1,
    )
    speedups = {n: gallery.speedup(f"fibonacci-{name}") for n, name in enumerate(names)}
    comparison = Comparison(
        plan,
        "",
        runs={(0, 0, lane): trace for lane, trace in enumerate(runs)},
        repeats={lane: speedup for lane, speedup in speedups.items() if speedup},
    )
    return compare_view.begun(comparison, "recorded") | {"recorded": True, "done": True}


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The view; `show(value)` gives it another value, and `sent` has what it triggered."""
    props = {**facts(256), "plotly": "", "value": json.dumps(filled())}
    with view_alone(browser, tmp_path / "compare.html", COMPARE_VIEW, props) as view:
        yield view


def rows(page: Any) -> list[list[Any]]:
    shown: list[list[Any]] = page.eval_on_selector_all(".ouro-compare-row", ROWS)
    return shown


def test_rows_stand_in_the_order_of_their_seconds_and_are_as_long(page: Any) -> None:
    """The oracle is the value that the view got."""
    value = filled()
    seconds = {row["lane"]: sum(step[0] for step in row["steps"]) for row in value["rows"]}
    shown = rows(page)
    lanes = [lane for lane, *_ in shown]
    assert lanes == [0, *sorted((lane for lane in seconds if lane), key=lambda lane: seconds[lane])]
    widths = {lane: width for lane, width, *_ in shown}
    for lane in lanes:
        assert widths[lane] / widths[0] == pytest.approx(seconds[lane] / seconds[0], rel=0.03)
    each = {row["lane"]: row["each"] for row in value["rows"] if row["each"]}
    best = max(each, key=lambda lane: sorted(each[lane])[len(each[lane]) // 2])
    clear = all(min(each[best]) > max(each[lane]) for lane in each if lane != best)
    assert [lane for lane, _, ring, _ in shown if ring] == ([best] if clear else [])
    page.get_by_label("Clock").select_option("passes")
    passes = {row["lane"]: len(row["steps"]) for row in value["rows"]}
    for lane, width, *_ in rows(page):
        assert width / rows(page)[0][1] == pytest.approx(passes[lane] / passes[0], rel=0.03)


def divided(text: str) -> tuple[float, float]:
    """Return the speedup that a row names, and the quotient of its seconds."""
    found = re.search(r"([\d.]+)×.*?([\d.]+) s \(plain ([\d.]+) s\)", text, re.DOTALL)
    assert found, text
    factor, seconds, plain = map(float, found.groups())
    return factor, plain / seconds


def test_what_a_row_shows_divides_to_its_speedup_and_a_busy_row_offers_passes(page: Any) -> None:
    """The oracle is a division of what is on the screen: by runs below a second too."""
    for value in (filled(), compare_view.recorded_view()):
        page.evaluate("value => show(value)", value)
        measured = [text for lane, *_, text in rows(page) if lane]
        assert len(measured) > 3
        for text in measured:
            factor, quotient = divided(text)
            assert factor == pytest.approx(quotient, abs=0.01)
    verdict = page.locator(".ouro-compare-verdict")
    assert verdict.inner_text().startswith("Fastest is")
    lane = value["rows"][1]["lane"]
    busy = [{**row, "busy": row["lane"] == lane} for row in value["rows"]]
    page.evaluate("value => show(value)", {**value, "rows": busy})
    row = page.locator(f'.ouro-compare-row[data-lane="{lane}"]')
    passes = [len(row["steps"]) for row in value["rows"][:2]]
    assert f"count passes: {passes[1]} instead of {passes[0]}" in row.inner_text()
    weight = "node => getComputedStyle(node).fontWeight"
    assert row.locator("b").last.evaluate(weight) == "400"
    assert verdict.inner_text().startswith("The machine was busy")
    slow = [{**row, "each": [0.5] * len(row["each"])} for row in value["rows"]]
    page.evaluate("value => show(value)", {**value, "rows": slow})
    assert verdict.inner_text() == "Nothing here is faster than plain decoding."


def test_the_colours_of_the_rows_are_named(page: Any) -> None:
    """The oracle is the colours that are drawn."""
    drawn = page.eval_on_selector_all(
        ".ouro-compare-row .ouro-strip i", "all => all.map((part) => part.dataset.look)"
    )
    named = page.eval_on_selector_all(
        ".ouro-compare-key li", "all => all.map((item) => item.dataset.look)"
    )
    assert len(named) > 3 and {*named} == {*drawn}


def test_a_chip_hides_its_row_and_the_slider_moves_b(page: Any) -> None:
    value = filled()
    cells = [lane for lane, texts in enumerate(value["values"]) if texts]
    slider = page.get_by_label("Setting of row B")
    for at, lane in ((0, cells[0]), (len(cells) - 1, cells[-1])):
        slider.fill(str(at))
        assert ["B", lane] in page.eval_on_selector_all(".ouro-compare-row", PAIR)
    text = value["values"][cells[0]][0]
    values = page.locator(".ouro-compare-axis").first
    values.get_by_role("button", name=text, exact=True).click()
    assert cells[0] not in [lane for lane, *_ in rows(page)]
    values.get_by_role("button", name=text, exact=True).click()
    assert cells[0] in [lane for lane, *_ in rows(page)]


def test_the_form_asks_for_what_is_shown_and_the_slider_names_its_row(page: Any) -> None:
    """The oracle is the view; where one value was measured, no slider moves it."""
    assert page.locator(".ouro-compare-tokens").input_value() == "96"
    lane = dict(page.eval_on_selector_all(".ouro-compare-row", PAIR))["B"]
    assert page.locator(".ouro-compare-slide output").inner_text() == filled()["names"][lane]
    page.get_by_label("Setting of row B").fill("1")
    assert page.locator(".ouro-compare-slide output").inner_text() == "draft length 4"
    caption = page.locator("figcaption")
    assert caption.inner_text() == "What a longer guess gains, and what it costs"
    page.evaluate("value => show(value)", compare_view.begun(by_rule(), "") | {"done": True})
    assert caption.inner_text() == "When should it stop?"
    alone = compare_view.begun(one_length(), "recorded") | {"done": True}
    page.evaluate("value => show(value)", alone)
    assert page.locator(".ouro-compare-slide").evaluate("label => label.hidden")


def test_rows_arrive_one_by_one_and_the_plan_has_the_chosen_values(page: Any) -> None:
    value = filled()
    page.get_by_role("button", name="Measure here").click()
    ((name, detail),) = page.evaluate("() => sent")
    assert name == "measure" and detail["plan"]["prompts"] == value["prompts"]
    (axis,) = value["axes"]
    assert detail["plan"]["axes"] == [[axis["name"], axis["values"]]]
    begun = {**value, "rows": [], "recorded": False, "done": False, "left": 8.0}
    page.evaluate("value => show(value)", begun)
    assert "about 8 s left" in page.locator(".ouro-compare-status").inner_text()
    assert all("waiting" in text for *_, text in rows(page))
    for row in value["rows"][:3]:
        page.evaluate("value => show(value)", {"rows": [row], "done": False, "left": 4.0})
    assert sum(width > 0 for _, width, *_ in rows(page)) == 3
    page.evaluate("value => show(value)", {"stopped": True})
    assert page.locator(".ouro-compare-status").inner_text().startswith("Stopped.")
    page.evaluate("value => show(value)", compare_view.fault("no prompt; no values"))
    status = page.locator(".ouro-compare-status[data-fault]")
    assert status.inner_text() == "no prompt; no values"
    assert page.get_by_role("button", name="Measure here").is_visible(), "nothing is measured"
    for chip in page.locator('.ouro-compare-examples [aria-pressed="true"]').all():
        chip.click()
    page.get_by_label("Own prompt").fill("")
    assert not status.count(), "a choice mends it"
    page.get_by_role("button", name="Measure here").click()
    assert page.get_by_label("Own prompt").evaluate("node => node === document.activeElement")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
