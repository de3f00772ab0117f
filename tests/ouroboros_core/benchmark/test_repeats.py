"""The speedup over a set of prompts: properties of any seconds, and rows computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.benchmark.repeats import Repeats, TimedRun
from ouroboros_core.trace.speedup import TimedRound, Timing

SECONDS = st.floats(0.01, 100)


@st.composite
def repeats(draw: st.DrawFn) -> list[TimedRun]:
    """One to four repeats of one to five questions."""
    tokens = draw(st.lists(st.integers(1, 128), min_size=1, max_size=5))
    return [
        TimedRun(repeat, question, TimedRound(Timing(n, draw(SECONDS)), Timing(n, draw(SECONDS))))
        for repeat in range(draw(st.integers(1, 4)))
        for question, n in enumerate(tokens)
    ]


@given(repeats())
def test_the_shown_speeds_divide_to_a_speedup_within_both_of_its_ranges(
    runs: list[TimedRun],
) -> None:
    measured = Repeats.of(runs)
    speedup, timed = measured.speedup, measured.timed
    speeds = timed.method.tokens_per_second, timed.plain.tokens_per_second
    assert speeds[0] / speeds[1] == pytest.approx(speedup.median)
    for low, high in (speedup.spread, measured.ci95):
        assert low <= speedup.median <= high


@given(repeats(), st.data())
def test_a_repeat_under_way_changes_nothing(runs: list[TimedRun], data: st.DataObject) -> None:
    first = [run for run in runs if run.repeat == 0]
    begun = data.draw(st.integers(0, len(first) - 1))
    partial = [TimedRun(9, run.question, run.timed) for run in first[:begun]]
    assert Repeats.of([*runs, *partial]) == Repeats.of(runs)


def test_the_best_repeat_is_not_the_result() -> None:
    """Plain decoding takes 4 s; three repeats take 4, 2 and 1 s."""
    runs = [
        TimedRun(n, 1, TimedRound(Timing(8, 4.0), Timing(8, seconds)))
        for n, seconds in enumerate((4.0, 2.0, 1.0))
    ]
    assert Repeats.of(runs).speedup.median == 2.0
    assert Repeats.of(runs).timed.method == Timing(8, 2.0)
    assert Repeats.of(()).timed == TimedRound(Timing(), Timing())
