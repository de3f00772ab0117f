"""The recorded comparison has the numbers of its traces; values come from declarations."""

from __future__ import annotations

import json

import pytest

from ouroboros_core import methods
from ouroboros_core.settings import AUTO
from ouroboros_core.trace import metrics
from visualize.compare import view as compare_view
from visualize.compare.components import values
from visualize.gallery import runs as gallery


def test_the_recorded_rows_have_the_seconds_and_speedups_of_the_gallery() -> None:
    view = compare_view.recorded_view()
    prompts = gallery.plan()["grid"]["prompts"]
    prompt = next(name for name in prompts if name in gallery.recorded_prompts())
    names = [name for name, of in gallery.runs().items() if of["prompt"] == prompt]
    by_lane = {row["lane"]: row for row in view["rows"]}
    assert len(by_lane) == len(names) == len(view["names"]) > 3
    rows = [by_lane[lane] for lane in range(1, len(names))]
    assert {tuple(row["each"]) for row in rows} == {
        tuple(gallery.speedups(name)) for name in names if gallery.speedups(name)
    }
    for row in rows:
        seconds = sum(seconds for seconds, _ in row["steps"])
        middle = sorted(row["each"])[len(row["each"]) // 2]
        assert row["plain"] / seconds == pytest.approx(middle, rel=0.02)
    json.dumps(view, allow_nan=False)


def test_a_modelled_clock_has_a_time_for_each_step() -> None:
    comparison = compare_view.recorded()
    row = compare_view.row(comparison, 1)
    assert {len(lengths) for lengths in row["clocks"].values()} == {len(row["steps"])}
    (trace, _) = comparison.shown(1)[0]
    assert len(row["steps"]) == len(trace.steps)
    assert sum(seconds for seconds, _ in row["steps"]) == pytest.approx(
        metrics.total_seconds(trace), abs=1e-3
    )


def test_every_method_that_proposes_offers_values_within_its_bounds() -> None:
    """The oracle is the declaration: it parses each value."""
    for kind in methods.available().values():
        for name in kind.Hyperparameters.settings():
            for value in values(kind, name):
                kind.Hyperparameters.parse({name: str(value)})
    assert values(methods.get("speculative"), "gamma") == [1, 2, 3, 4, 5, 6, 8, 12, 16, AUTO]
    assert values(methods.get("prompt_lookup"), "min_ngram") == [1, 2, 3], "the longest is 3"
