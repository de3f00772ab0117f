"""The recorded comparison has the numbers of its traces; values come from declarations."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from ouroboros_core import methods
from ouroboros_core.methods.parts.stopping import RULES
from ouroboros_core.settings import AUTO
from ouroboros_core.sweeps.grid import Axis, Grid
from ouroboros_core.trace import metrics
from ouroboros_core.what_if.draft_length import DraftLengths
from visualize.compare import figures
from visualize.compare import view as compare_view
from visualize.compare.comparison import Comparison
from visualize.compare.components import facts, values
from visualize.compare.tab import ComparePanel
from visualize.gallery import runs as gallery
from visualize.run.view import LIVE
from visualize.watch.session import Session


def test_the_recorded_rows_have_the_seconds_and_speedups_of_the_gallery() -> None:
    """The seconds are scaled, and the page says so."""
    view = compare_view.recorded_view()
    assert view["status"].endswith("scaled to one plain run.")
    prompts = gallery.plan()["grid"]["prompts"]
    prompt = next(name for name in prompts if name in gallery.recorded_prompts())
    names = [name for name, of in gallery.runs().items() if of["prompt"] == prompt]
    by_lane = {row["lane"]: row for row in view["rows"]}
    assert len(by_lane) == len(names) == len(view["names"]) > 3
    rows = [by_lane[lane] for lane in range(1, len(names))]
    assert {tuple(row["each"]) for row in rows} == {
        tuple(gallery.speedups(name)) for name in names if gallery.speedups(name)
    }
    assert len({row["plain"] for row in rows}) == 1
    for row in rows:
        seconds = sum(seconds for seconds, _ in row["steps"])
        middle = sorted(row["each"])[len(row["each"]) // 2]
        assert row["plain"] / seconds == pytest.approx(middle, rel=0.02)
    json.dumps(view, allow_nan=False)
    assert view["names"][1] == "Speculative decoding, draft length 1"


def test_a_row_that_was_measured_here_opens_as_a_live_run_and_a_recorded_one_does_not() -> None:
    """It opens with its rounds."""

    class Watch:
        outputs = ()

        @staticmethod
        def show(session: Session, *_: Any, **facts: Any) -> list[Any]:
            return [facts]

    panel: Any = SimpleNamespace(watch=Watch)
    sent = gr.EventData(None, {"lane": 1, "prompt": 0})
    measured = one_length()
    for comparison, badge in ((measured, LIVE), (None, "")):
        *_, facts = ComparePanel._open(panel, sent, comparison, Session())
        assert facts["badge"] == badge
        assert facts["speedup"] == (comparison or compare_view.recorded()).speedup(1)


def test_the_chart_has_every_method_and_says_why_theory_and_measurement_differ() -> None:
    """The oracle is the recorded rows: draft length 1 is the fastest, theory says 2."""
    comparison = compare_view.recorded()
    view = compare_view.recorded_view()
    named = {line["name"]: line for line in view["figure"]["data"]}
    lanes = range(1 + len(comparison.rows), len(comparison.names))
    assert lanes, "other methods are compared"
    for lane in lanes:
        speedup = comparison.speedup(lane)
        line = named[f"speedup: {comparison.names[lane]}"]
        assert speedup is not None
        assert list(line["y"]) == pytest.approx([speedup.median] * 2)
    (ideal,) = comparison.ideals
    fastest = max(
        (row for row in comparison.rows if row.coordinates != (AUTO,)), key=lambda row: row.speedup
    )
    assert fastest.coordinates[0] != ideal.gamma
    assert list(named[f"by theory: draft length {ideal.gamma}"]["y"]) == [ideal.speedup]
    told = f"Measured, {fastest.coordinates[0]} is the fastest: {fastest.speedup:.2f}×."
    assert view["theory"][-1].startswith(told) and len(view["theory"][-1]) > len(told)
    same = [replace(ideal, gamma=int(fastest.coordinates[0]))]
    assert compare_view._measured_otherwise(comparison.rows, same) == []


def one_length() -> Comparison:
    """The recorded run with a draft length of 4, beside plain decoding."""
    whole = compare_view.recorded()
    lane = next(n for n, row in enumerate(whole.rows, 1) if row.coordinates == (4,))
    grid = Grid("speculative", (Axis("gamma", (4,)),))
    return replace(
        whole,
        plan=replace(whole.plan, grid=grid, others=()),
        runs={(0, 0, 0): whole.runs[0, 0, 0], (0, 0, 1): whole.runs[0, 0, lane]},
        repeats={1: whole.repeats[lane]},
    )


def test_where_one_draft_length_is_measured_the_others_are_predicted_from_its_run() -> None:
    """The oracle is the prediction of the run; several measured ones need none."""
    comparison = one_length()
    view = compare_view.begun(comparison, "recorded")
    (row,) = comparison.rows
    lengths = DraftLengths(*comparison.shown(1)[0])
    hollow = [line for line in view["figure"]["data"] if line["name"] == "predicted"]
    values = [int(text) for text in view["figure"]["layout"]["xaxis"]["ticktext"]]
    for line, of in zip(hollow, ("tokens_per_pass", "cost", "speedup"), strict=True):
        assert len(line["x"]) == len(values) - 1, "the measured one is measured"
        for x, y in zip(line["x"], line["y"], strict=True):
            known = lengths.of(values[x])
            cost = known.tokens_per_pass / known.speedup
            assert y == pytest.approx(cost if of == "cost" else getattr(known, of))
    assert lengths.of(int(row.coordinates[0])).speedup == pytest.approx(row.speedup, rel=0.1)
    assert view["theory"][-1] == compare_view.PREDICTED
    grid = Grid("speculative", (Axis("gamma", (2, 4)),))
    assert replace(comparison, plan=replace(comparison.plan, grid=grid)).predicted == {}


def test_a_comparison_of_the_automatic_draft_length_alone_has_a_chart() -> None:
    """Predicted lengths stand in order, and the word after them, as on the axis of the form."""
    comparison = one_length()
    (row,) = comparison.rows
    figure = figures.trade_off(
        [replace(row, coordinates=(AUTO,))],
        [Axis("gamma", (AUTO,))],
        [],
        {length: DraftLengths(*comparison.shown(1)[0]).of(length) for length in (8, 2)},
    )
    assert figure["layout"]["xaxis"]["ticktext"] == ["2", "8", AUTO]
    measured = next(line for line in figure["data"] if line["name"].startswith("speedup"))
    assert list(measured["x"]) == [2] and list(measured["y"]) == [row.speedup]


def by_rule() -> Comparison:
    """Recorded runs stand in for those of stopping rules."""
    whole = compare_view.recorded()
    rules = tuple(RULES)[:5]
    grid = Grid("speculative", (Axis("stop", rules),))
    lanes = range(len(rules) + 1)
    return replace(
        whole,
        plan=replace(whole.plan, grid=grid, others=()),
        runs={(0, 0, lane): whole.runs[0, 0, lane] for lane in lanes},
        repeats={lane: whole.repeats[lane] for lane in lanes if lane},
    )


def test_stopping_rules_are_points_of_one_chart_and_only_fixed_lengths_have_a_theory() -> None:
    """The oracle is the run of each rule: emitted tokens / passes of the target."""
    comparison = by_rule()
    view = compare_view.begun(comparison, "recorded")
    assert view["caption"] == "When should it stop?"
    (points,) = (line for line in view["figure"]["data"] if "stop" in line["name"])
    traces = [comparison.shown(lane)[0][0] for lane in range(1, 6)]
    lengths = [len(trace.tokens) / len(trace.steps) for trace in traces]
    assert [*points["y"]] == pytest.approx(lengths)
    assert [*points["text"]] == list(RULES)[:5]
    (sentence,) = view["theory"]
    assert sentence.startswith("By theory, at stopping rule (stop) fixed,")
    (method,) = (one for one in facts(64)["methods"] if one["id"] == "speculative")
    (stop,) = (one for one in method["settings"] if one["name"] == "stop")
    assert stop["first"] == stop["values"] == list(RULES)


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
    offered = {method["id"] for method in facts(64)["methods"]}
    assert "hf_candidates" not in offered, "it needs an object of a program"
    for kind in methods.available().values():
        for name in kind.Hyperparameters.settings():
            for value in values(kind, name):
                kind.Hyperparameters.parse({name: str(value)})
    assert values(methods.get("speculative"), "gamma") == [1, 2, 3, 4, 5, 6, 8, 12, 16, AUTO]
    assert values(methods.get("prompt_lookup"), "min_ngram") == [1, 2, 3], "the longest is 3"
