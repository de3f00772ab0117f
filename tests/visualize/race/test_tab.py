"""What the lanes of a race are asked for with, and how they run in a real browser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from tests.visitor import open_tab
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.race.tab import RacePanel, _help
from visualize.race.view import RECORDED


def tasks(*lanes: tuple[str, str]) -> list[tuple[str, Any]]:
    panel: Any = SimpleNamespace(most_tokens=64)
    sampling = {"temperature": 0.0, "seed": 0}
    return RacePanel._tasks(panel, "Hello", 16, False, sampling, lanes)


def test_a_lane_may_begin_with_the_settings_of_a_paper_and_is_named_after_them() -> None:
    typed = (
        ("lookahead", "published"),
        ("lookahead", "published, window_size = 7"),
        ("speculative", "gamma=2"),
        ("union", ""),
    )
    found = tasks(*typed)
    assert [name for name, _ in found] == [
        "Plain decoding",
        "Lookahead decoding, as published",
        "Lookahead decoding, as published, window size 7",
        "Speculative decoding, draft length 2",
        "Union of all sources",
    ]
    published = dict(methods.get("lookahead").published)
    chosen = [task.hyperparameters.model_dump() for _, task in found]
    assert chosen[1] == published and chosen[2] == published | {"window_size": 7}
    assert "`published`" in _help("lookahead") and "published" not in _help("union")
    with pytest.raises(
        InvalidInput, match="lane 2, Union of all sources: union has no published settings"
    ):
        tasks(("union", "published"))
    with pytest.raises(InvalidInput, match="text_phrases is not a setting here"):
        tasks(("lookahead", "text_phrases=true"))


LANES = "#race-view .ouro-lane"
WAITING = f"document.querySelectorAll('{LANES}[data-state=\"waiting\"]').length"
GROWING = f"""() => {{
  const [first, ...others] = document.querySelectorAll('{LANES}');
  const waits = (lane) => lane.dataset.state === 'waiting'
    && /Waits for its turn/.test(lane.textContent);
  return others.length === 3 && first.dataset.state === 'running' && others.every(waits)
    && first.querySelectorAll('.ouro-token').length > 3;
}}"""


@pytest.mark.browser
@pytest.mark.embedded
def test_until_a_race_has_run_there_is_a_recorded_one_with_the_numbers_of_its_traces(
    page: Any,
) -> None:
    open_tab(page, "Race")
    page.wait_for_selector('#race-view .ouro-run[data-done="recorded"]')
    assert page.locator("#race-view .ouro-badge").inner_text().startswith("recorded with Qwen")
    assert "this machine" not in page.locator("#race-view caption").inner_text()
    prompt = gallery.trace(RECORDED[0]).prompt.text
    assert page.locator("#race-view .ouro-title").inner_text() == f"Prompt: {prompt}"
    written = {
        look for token in page.locator(f"{LANES} .ouro-token").all()
        if (look := token.get_attribute("data-look"))
    }  # fmt: skip
    keys = page.locator("#race-view .ouro-key").all()
    assert {key.get_attribute("data-look") for key in keys} == written and len(written) > 3
    form = [page.locator(f"#lane-{number} input").input_value() for number in (2, 3, 4)]
    rows = [row.split("\t") for row in page.locator("#race-view tr").all_inner_texts()][1:]
    traces = [gallery.paced(name) for name in RECORDED]
    assert [row[:5] for row in rows] == [
        [
            labels.method(trace.method),
            str(len(trace.tokens)),
            str(len(trace.steps)),
            f"{metrics.mean_acceptance_length(trace):.2f}",
            f"{metrics.total_seconds(trace):.2f}",
        ]
        for trace in traces
    ]
    assert len({trace.prompt.text for trace in traces}) == 1
    assert form == [row[0] for row in rows[1:]], "Race runs the lanes that are shown"


@pytest.mark.browser
@pytest.mark.embedded
def test_lanes_grow_in_turn_one_under_the_other_and_passes_are_the_first_clock(page: Any) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    open_tab(page, "Race")
    page.click("#race")
    page.wait_for_function(GROWING, timeout=180_000)
    early = page.locator(f"{LANES} .ouro-token").count()
    page.wait_for_selector('#race-view .ouro-run[data-done="true"]', timeout=300_000)
    assert page.evaluate(WAITING) == 0
    page.locator("#race-view .ouro-slider").focus()
    page.keyboard.press("End")
    assert page.locator(f"{LANES} .ouro-token").count() > early
    boxes = [lane.bounding_box() for lane in page.locator(LANES).all()]
    assert len({round(box["x"]) for box in boxes}) == 1, "not side by side"
    view = page.locator("#race-view .ouro-lanes").bounding_box()
    assert all(box["width"] == pytest.approx(view["width"], abs=2) for box in boxes)
    assert boxes[-1]["y"] + boxes[-1]["height"] <= 900, "all lanes are in view"
    rows = [row.split("\t") for row in page.locator("#race-view tr").all_inner_texts()]
    remarks = page.locator("#race-view .ouro-race-remark").all_inner_texts()
    assert len(remarks) == 3 and all(" round" in remark for remark in remarks)
    passes = [f"{row[2]} forward passes" for row in rows[1:]]
    first = page.locator(f"{LANES} .ouro-lane-first")
    assert first.all_inner_texts() == passes
    strips = page.locator(f"{LANES} .ouro-lane-strip").all()
    assert [strip.locator(".ouro-lane-pass").count() for strip in strips] == [
        int(row[2]) for row in rows[1:]
    ], "a pass is a piece of the strip"
    most = max(int(row[2]) for row in rows[1:])
    filled = "strip => strip.lastChild.offsetLeft + strip.lastChild.offsetWidth - strip.offsetLeft"
    for strip, row in zip(strips, rows[1:], strict=True):
        share = strip.evaluate(filled) / strip.bounding_box()["width"]
        assert share == pytest.approx(int(row[2]) / most, abs=0.02), "as long as its passes"
    page.get_by_label("Clock").select_option("seconds")
    assert first.all_inner_texts() == [f"{row[4]} s" for row in rows[1:]]
    page.get_by_label("Clock").select_option("h100-32")
    assert all(text.endswith(" s, modelled") for text in first.all_inner_texts())
    verdict = page.locator("#race-view .ouro-verdict").inner_text()
    assert verdict.startswith("Modelled: H100, Llama-3 8B, 32 texts at once: ")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    table = page.locator("#race-view .ouro-scroll")
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth"), "nothing of it is cut off"
    result, lane = (page.locator(name).bounding_box()["y"] for name in ("#race-view", "#lane-2"))
    assert page.locator("#race").bounding_box()["y"] < result < lane
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    for lane in page.locator(LANES).all():
        assert lane.bounding_box()["width"] > 280
