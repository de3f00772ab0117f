"""Runs of a visit: their cards, and what the browser sends back of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup
from visualize.compare import view as compare_view
from visualize.compare.comparison import SideBySide
from visualize.gallery import runs as gallery
from visualize.watch import visit


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
    alone = visit.card(visit.VisitRun(plain))
    assert (alone["speedup"], visit.read(alone["run"]).speedup) == ("", None)


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
    other = replace(runs[1], trace=gallery.trace("stack-union"))
    with pytest.raises(InvalidInput, match="compare runs of one prompt"):
        SideBySide(runs[0], other)
