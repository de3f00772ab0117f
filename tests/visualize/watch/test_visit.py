"""Runs of a visit: their cards, and what the browser sends back of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Trace
from tests.visitor import view_alone
from visualize.compare import view as compare_view
from visualize.compare.comparison import SideBySide
from visualize.compare.tab import ComparePanel
from visualize.gallery import runs as gallery
from visualize.kit.palette import MAIN
from visualize.run.view import legend
from visualize.watch import visit


def disturbed(trace: Trace, plain: Trace | None) -> tuple[Trace, Trace]:
    """Return a run, and its plain run as on a busy machine."""
    assert plain is not None
    steps = (replace(step, seconds=step.seconds.times(50)) for step in plain.steps)
    return trace, replace(plain, steps=tuple(steps))


def test_a_run_comes_back_from_the_browser_as_it_was() -> None:
    trace, plain = gallery.trace("java-ouroboros"), gallery.baseline("java-ouroboros")
    assert plain is not None
    card = visit.card(visit.VisitRun(trace, plain, Speedup((1.2, 1.4, 1.3)), "name"))
    back = visit.read(json.loads(json.dumps(card))["run"])
    assert (back.trace, back.baseline) == (trace, plain)
    assert back.speedup == Speedup((1.2, 1.4, 1.3)) and card["speedup"] == "1.30×"
    assert back.key == card["key"] == "name", "shown again, it has the same card"
    assert card["pace"] == f"{metrics.mean_acceptance_length(trace):.2f} tokens per pass"
    assert len(card["strip"]["steps"]) == len(trace.steps)
    first = visit.card(visit.VisitRun(trace, plain, Speedup((1.21,), more=True)))
    assert first["speedup"] == "about 1.2×", "further rounds follow"
    noisy = visit.card(visit.VisitRun(*disturbed(trace, plain), Speedup((1.3,))))
    assert noisy["speedup"] == f"1.30×, noisy machine: {len(trace.steps)} passes"
    assert (card["busy"], noisy["busy"]) == (False, True)
    alone = visit.card(visit.VisitRun(plain))
    assert (alone["speedup"], visit.read(alone["run"]).speedup) == ("", None)


@pytest.mark.browser
def test_the_strip_of_a_card_has_the_colours_of_its_text(browser: Any, tmp_path: Path) -> None:
    """Other sources are one group in both, until the legend names each."""
    trace = gallery.trace("palindrome-union")
    card = visit.card(visit.VisitRun(trace, key="one"))
    props = {"value": json.dumps(card), "looks": legend()}
    tones = """() => new Set([...document.querySelectorAll('.ouro-strip i')]
      .filter(part => !['draft', 'correction', 'bonus', 'target', 'suffix']
        .includes(part.dataset.look)).map(part => getComputedStyle(part).backgroundColor)).size"""
    others = {*trace.looks} - {*MAIN}
    with view_alone(browser, tmp_path / "visit.html", visit.VisitView.VIEW, props) as page:
        assert page.evaluate(tones) == 1 < len(others)
        page.evaluate(
            "() => document.dispatchEvent(new CustomEvent('ouro:grouped',"
            " { detail: { grouped: false } }))"
        )
        assert page.evaluate(tones) == len(others)


@pytest.mark.parametrize("run", [None, {}, {"file": 3, "each": []}, {"file": "{}", "each": []}])
def test_what_is_no_run_is_refused(run: object) -> None:
    with pytest.raises(InvalidInput):
        visit.read(run)


def test_two_runs_are_rows_with_their_speedups_and_plain_decoding() -> None:
    names = ("java-ouroboros", "java-speculative")
    runs = [
        visit.VisitRun(gallery.trace(name), gallery.baseline(name), gallery.speedup(name))
        for name in names
    ]
    view = compare_view.side_by_side(SideBySide(*runs))
    plain, *rows = view["rows"]
    assert [row["lane"] for row in view["rows"]] == [0, 1, 2] and plain["each"] == []
    for row, run, name in zip(rows, runs, names, strict=True):
        assert tuple(row["each"]) == pytest.approx(gallery.speedups(name), abs=1e-4)
        assert row["runs"] == [list(run.trace.texts)]
        assert SideBySide(*runs).shown(row["lane"]) == {0: (run.trace, run.baseline)}
    assert len(view["names"]) == 3 and view["axes"] == []
    assert [row["busy"] for row in view["rows"]] == [False] * 3
    noisy = visit.VisitRun(*disturbed(runs[0].trace, runs[0].baseline))
    view = compare_view.side_by_side(SideBySide(noisy, runs[1]))
    assert [row["busy"] for row in view["rows"]] == [False, True, False]
    assert SideBySide(*runs).speedup(1) == runs[0].speedup, "an opened row keeps its rounds"
    other = replace(runs[1], trace=gallery.trace("stack-union"))
    with pytest.raises(InvalidInput, match="compare runs of one prompt"):
        SideBySide(runs[0], other)


@pytest.mark.browser
def test_cards_survive_a_reload_and_two_runs_of_one_prompt_can_be_compared(
    browser: Any, tmp_path: Path
) -> None:
    """In a page from disk, without a server."""
    props = {"value": None, "looks": legend()}
    names = ("java-ouroboros", "java-speculative", "stack-union")
    cards = [visit.card(visit.VisitRun(gallery.trace(name), key=name)) for name in names]
    with view_alone(browser, tmp_path / "visit.html", visit.VisitView.VIEW, props) as page:
        assert page.locator(".ouro-visit").is_hidden()
        for card in (cards[2], cards[0], cards[1], {**cards[1], "speedup": "9.99×"}):
            page.evaluate("card => show(card)", card)
        page.reload()
        page.evaluate("() => ready")
        shown = page.locator(".ouro-visit-show").all_inner_texts()
        assert shown == [cards[n]["name"] for n in (1, 0, 2)], "the newest first, one for each run"
        assert "9.99×" in page.locator(".ouro-visit-card").first.inner_text()
        compare = page.get_by_role("button", name="Compare")
        assert compare.count() == 1, "the third run is of another prompt"
        compare.click()
        page.locator(".ouro-visit-show").nth(2).click()
        assert page.evaluate("() => sent") == [
            ["compare_runs", {"a": cards[1]["run"], "b": cards[0]["run"]}],
            ["show_run", {"run": cards[2]["run"]}],
        ]
        # The browser compares the beginnings of two prompts; the server compares their tokens.
        sent = {name: cards[n]["run"] for n, name in ((1, "a"), (2, "b"))}
        *unchanged, refusal = ComparePanel._compare_runs(gr.EventData(None, sent))
        assert [value["__type__"] for value in unchanged] == ["update"] * 3
        compare.click()
        page.evaluate("value => show(value)", refusal)
        said = page.locator(".ouro-visit-card", has=compare).get_by_role("alert")
        assert said.inner_text().startswith("the runs are of two prompts")
