"""The charts of a run: each number in them is recomputed by hand, and a chart is declared once."""

import json
import re
import sys

import pytest

from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Step
from ouroboros_core.tree import chain
from ouroboros_core.what_if.draft_length import DraftLengths
from tests.commands import finished
from tests.traces import DRAFT, plain_trace, typed_trace
from visualize.drafts import figures as draft_figures
from visualize.gallery import runs as gallery
from visualize.kit.palette import VISUALIZE
from visualize.kit.plots import PLAIN
from visualize.run import figures
from visualize.run.figures import tokens_against_time
from visualize.what_if import view as what_if_view

DECLARE = """
import json
from dataclasses import replace
import gradio as gr
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.file import read_trace
from ouroboros_core.locations import assets
from visualize.kit import plots
from visualize.run import figures
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.watch.tab import WatchPanel, has_charts

figures.MORE_CHARTS.append(figures.Chart(
    "declared-here", "A new chart", "The title of a new chart", "step",
    lambda run: plots.empty(f"{run.tokens} tokens"),
    applies=lambda trace: len(trace.steps) > 2,
))
with gr.Blocks() as page:
    WatchPanel(Runner(Models(lambda _: None)), gr.State(""))
components = {c["props"].get("elem_id"): c["props"] for c in page.config["components"]}
trace = read_trace((assets() / 'traces' / 'river-sam.json').read_bytes())
print(json.dumps({
    "chart": components["chart-declared-here"],
    "details": components["details"],
    "whole": figures.more_charts(Summary(trace))["declared-here"],
    "has": has_charts(trace),
    "short": has_charts(replace(trace, steps=trace.steps[:2])),
    "tokens": len(trace.tokens),
}, default=str))
"""


def test_a_chart_that_is_declared_is_drawn_and_has_its_place_in_watch() -> None:
    done = finished([sys.executable, "-c", DECLARE], check=True)
    texts = {name: json.dumps(value) for name, value in json.loads(done.stdout).items()}
    assert "The title of a new chart" in texts["chart"]
    assert "A new chart" in texts["details"] and "declared-here" in texts["details"]
    assert f"{texts['tokens']} tokens" in texts["whole"]
    assert "declared-here" in texts["has"] and "declared-here" not in texts["short"]


def test_the_speedup_of_a_run_over_itself_is_one_at_every_token() -> None:
    trace = typed_trace()
    assert list(figures.speedup_by_token(trace, trace)["data"][0]["y"]) == pytest.approx([1.0] * 7)
    json.dumps(figures.speedup_by_token(trace, trace))


def test_the_new_charts_show_what_was_counted() -> None:
    trace, plain = typed_trace(), plain_trace()
    positions = figures.acceptance_by_position(trace)["data"][0]
    assert list(positions["y"]) == [1.0, 2 / 3] and list(positions["text"]) == ["3/3", "2/3"]
    bars = {bar["name"]: list(bar["x"]) for bar in figures.time_breakdown(trace, plain)["data"]}
    assert bars["target passes"] == pytest.approx([1000 * 1.0 / 10, 1000 * 0.4 / 7])
    even = figures.break_even(Summary(trace, plain))
    axis = even["layout"]["yaxis"]["title"]["text"]
    assert axis == "decoding alone, over plain", "the headline counts the prompt"
    curve, point = even["data"]
    assert list(point["x"]) == pytest.approx([5 / 6])
    cost = Summary(trace, plain).step_cost
    assert cost is not None
    assert (point["y"][0], curve["y"][0]) == pytest.approx((7 / 3 / cost, 1 / cost))
    growth, paid = figures.pool_growth(trace.steps)["data"]
    assert list(growth["y"]) == [7, 9, 9] and list(paid["x"]) == [2]
    assert figures.pool_growth(trace.steps)["layout"]["yaxis"]["rangemode"] == "normal"


def test_other_draft_lengths_have_the_runs_own_the_best_and_the_line_of_the_oracle() -> None:
    """The oracle is the prediction itself."""
    trace, plain = gallery.trace("java-speculative"), gallery.baseline("java-speculative")
    assert plain is not None
    summary, known = Summary(trace, plain), DraftLengths(trace, plain)
    figure = figures.draft_lengths(summary)
    predicted, own, best = figure["data"]
    assert list(predicted["y"]) == pytest.approx([known.of(n).speedup for n in predicted["x"]])
    assert (own["x"][0], own["y"][0]) == pytest.approx((summary.proposal_depth, summary.speedup))
    assert best["y"][0] == max(predicted["y"]) == known.of(best["x"][0]).speedup
    lines = [shape["y0"] for shape in figure["layout"]["shapes"]]
    assert pytest.approx(known.oracle.speedup) in lines and known.oracle.speedup >= best["y"][0]


def test_the_decision_of_a_step_is_shown_on_hovering() -> None:
    choice = Decision(0, 0, 1.0, 50.0, "nothing proposed", window=0)
    step = Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds(verify=1.0), choice=choice)
    assert "0 of 0 guesses: nothing proposed; no window" in str(figures.choices([step]))


def test_charts_of_time_and_cost_have_no_colour_of_a_source() -> None:
    """The colours of the sources say who wrote a token; lessons give them names."""
    trace, plain = typed_trace(), plain_trace()
    colours = {look.colour for look in LOOKS.values()} - {PLAIN}
    drawn = [
        tokens_against_time(trace, plain),
        figures.speedup_by_token(trace, plain),
        figures.acceptance_by_position(trace),
        figures.time_breakdown(trace, plain),
        figures.break_even(Summary(trace, plain)),
        what_if_view.view(gallery.trace("java-ouroboros"), {"machine": "a100"}),
        draft_figures.AHEAD,
    ]
    sheets = ["compare/compare", "what_if/what_if", "proof/proof", "learn/learn"]
    sheets += ["learn/learn_pictures", "learn/method_map", "learn/learn_share"]
    named = re.compile(r"--(draft|target|phrase|bonus|copy): #[0-9a-f]{6};")
    styles = [
        named.sub("", (VISUALIZE / f"{name}.css").read_text("utf-8")).upper() for name in sheets
    ]
    texts = json.dumps(drawn) + "".join(styles)
    assert {colour for colour in colours if colour in texts} == set()
