"""The words about a run's costs, pool and merging: each number is recomputed from the trace."""

import re
from dataclasses import replace

import pytest

from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Step
from ouroboros_core.tree import chain
from tests.traces import DRAFT, make_trace, plain_trace, typed_trace
from visualize.run import diagnosis
from visualize.run import view as views


def test_the_diagnosis_is_true_of_the_trace() -> None:
    trace, plain = typed_trace(), plain_trace()
    lines = diagnosis.diagnosis(Summary(trace, plain))
    numbers_said = [float(x) for x in re.findall(r"\d+\.\d+", lines[0])]
    cost = (0.4 + 0.2 + 0.2) / 3 / 0.1
    assert Summary(trace, plain).step_cost == pytest.approx(cost)
    rest = 2.67 - 1.00 - 1.33  # 0.1 / 3 / 0.1, but as shown the parts make the whole
    assert numbers_said == pytest.approx(
        [cost, 0.3 / 3 / 0.1, 0.4 / 3 / 0.1, 3.0, rest, 7 / 3, 7 / 3 / cost], abs=0.006
    )
    told = " ".join([*lines, diagnosis.alone(Summary(trace))])
    assert re.findall(r"pass over [\d.]+ (\w+)", told) == ["rows", "rows"], "as in the lessons"
    c, alpha = 0.3 / 5 / 0.1, 5 / 6
    proposed = 6  # 2 in each of three steps: the whole of them tested, the last path accepted
    gamma = 2.0
    needed = metrics.break_even(gamma, cost)
    assert needed is not None and metrics.expected_tokens(needed, gamma) == pytest.approx(cost)
    assert lines[1].startswith(
        f"Each draft pass costs {c:.2f} of a plain step, and {alpha:.0%} of tested tokens are "
        f"accepted ({5 / proposed:.0%} of all that were proposed); with"
    )
    assert f"break-even needs {needed:.0%}" in lines[1]
    assert "It loses: beyond a plain step, drafting costs most" in lines[2]
    assert metrics.break_even(1, 2.5) is None and metrics.expected_tokens(1.0, 3) == 4


def test_a_baseline_from_a_busy_machine_is_said_to_be_one() -> None:
    """Plain passes over one row that took longer than passes over three: no method does that, so
    the speedup says nothing. When it is one is tested in trace/test_metrics.py."""
    plain = plain_trace()
    steps = (replace(step, seconds=replace(step.seconds, verify=0.3)) for step in plain.steps)
    busy = Summary(typed_trace(), replace(plain, steps=tuple(steps)))
    first = diagnosis.diagnosis(busy)[0]
    said = "The speedup was measured on a busy machine: passes of plain decoding"
    assert first.startswith(said) and "took 3.0× as long" in first
    tile = views.tiles(busy)[1]
    assert tile["doubtful"] and tile["mark"].startswith("measured on a busy machine; count passes")


def test_the_pool_is_told_by_where_its_phrases_were_learned_and_what_paid_off() -> None:
    trace = replace(typed_trace(), pieces={20: " a", 21: " b"})
    section = diagnosis.phrase_pool(trace)
    assert section is not None
    assert section["lines"] == [
        "9 phrases at the end. In 1 of 3 steps (33%) some of them were checked by the target; 1 of "
        "their tokens were accepted.",
        "Phrases that paid off: ‘ b’.",
    ]
    assert section["rows"] == [["in an earlier run", 1, 1]]
    assert diagnosis.phrase_pool(plain_trace()) is None


def test_a_run_without_a_window_says_that_it_does_not_pay() -> None:
    choice = Decision(0, 0, 1.0, 50.0, "nothing proposed", window=0)
    step = Step(0, chain(1, [], DRAFT), (), 10, 1, Seconds(verify=1.0), choice=choice)
    for plain in (None, replace(plain_trace(), prompt=make_trace([step]).prompt)):
        lines = diagnosis.sections(Summary(make_trace([step]), plain))[0]["lines"]
        assert lines[-1] == "No window: it does not pay here, and so there was nothing to propose."


def test_merging_says_what_it_saved() -> None:
    """The numbers are counted by hand in a tree of two drafted nodes and a copy."""
    tree = chain(1, [11, 13, 10], DRAFT)
    tree = replace(tree, provenance=(*tree.provenance[:3], replace(DRAFT, match=2)))
    step = Step(0, tree, (1, 2, 3), 11, 4, Seconds(draft=1.0), 2, draft_rows_saved=3)
    plain = Step(1, chain(11, [], DRAFT), (), 10, 1, Seconds(verify=1.0))
    section = diagnosis.merging(make_trace([step, plain], "graph"))
    assert section is not None and section["lines"] == [
        "Continuations that are equal were drafted once: 3 tokens fewer in 1 of 2 steps. "
        "1 token checked by the target came from another branch, 1 of them accepted."
    ]
    assert diagnosis.merging(typed_trace()) is None
    assert views.step_view(step, ["a"] * 4, Sampling(), str)["saved"] == 3


@pytest.mark.parametrize(("cost", "ratio"), [(1.676, 2.53 / 1.68), (0.004, 2.53 / 0.004)])
def test_a_ratio_is_that_of_the_numbers_which_the_words_show(cost: float, ratio: float) -> None:
    """A cost that would be shown as zero is that of a very slow plain run."""
    assert diagnosis.shown_ratio(2.531, cost) == pytest.approx(ratio)
