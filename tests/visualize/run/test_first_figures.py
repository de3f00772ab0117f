"""The two charts under a text: each number in them is recomputed by hand."""

import pytest

from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.summary import Summary
from tests.traces import typed_trace
from visualize.run import figures
from visualize.run.figures import acceptance_length, tokens_against_time


def test_they_show_what_the_trace_says() -> None:
    trace = typed_trace()
    data = acceptance_length(trace.steps)["data"]
    bars = {bar["name"]: list(bar["y"]) for bar in data if any(bar["y"])}
    assert bars == {
        "● draft model": [1, 1, 2],
        "▲ corrected by target": [1, None, None],
        "◆ accepted candidate suffix": [None, 1, None],
        "★ bonus from target": [None, 1, None],
    }, "no entry for a source that wrote nothing"
    run, plain = tokens_against_time(trace, trace)["data"]
    assert list(run["y"]) == list(plain["y"]) == [0, 2, 5, 7]
    assert list(run["x"]) == pytest.approx([0.5, 0.9, 1.1, 1.3])


def test_the_charts_of_a_run_that_begins_have_a_place_for_every_source() -> None:
    """The browser adds steps to them, see run/step_charts.js."""
    begun = figures.begun_charts()
    assert begun.keys() == figures.first_charts(Summary(typed_trace())).keys()
    assert {bar["meta"]["look"] for bar in begun["acceptance"]["data"]} == set(LOOKS)
    assert [len(line["x"]) for line in begun["time"]["data"]] == [0, 0]
