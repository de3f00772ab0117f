"""The definition of speedup: properties of any rounds, and the round whose numbers are shown."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.trace.speedup import Speedup, TimedRound, Timing

TIMES = st.floats(0.01, 1000)
TIMED = st.builds(
    TimedRound,
    st.builds(Timing, st.integers(1, 512), TIMES),
    st.builds(Timing, st.integers(1, 512), TIMES),
)


@given(st.lists(TIMED, min_size=1, max_size=5))
def test_the_speeds_of_the_shown_round_divide_to_the_shown_speedup_within_its_range(
    rounds: list[TimedRound],
) -> None:
    speedup = Speedup(tuple(each.speedup for each in rounds))
    shown = rounds[speedup.middle]
    method, plain = shown.method, shown.plain
    assert method.tokens_per_second / plain.tokens_per_second == speedup.median
    assert speedup.spread[0] <= speedup.median <= speedup.spread[1]
    assert speedup.median <= median(speedup.each), "of two in the middle the lower one"
    assert bool(speedup.between) == (len(rounds) > 1), "one round has no interval"


@given(st.integers(1, 512), TIMES, TIMES)
def test_texts_of_equal_length_have_the_ratio_of_their_seconds(
    tokens: int, plain: float, seconds: float
) -> None:
    timed = TimedRound(Timing(tokens, plain), Timing(tokens, seconds))
    assert timed.speedup == pytest.approx(plain / seconds)


def test_an_empty_run_has_no_speedup() -> None:
    for timed in (TimedRound(Timing(), Timing(1, 1.0)), TimedRound(Timing(1, 1.0), Timing())):
        assert timed.speedup == 0


def test_the_words_beside_a_speedup() -> None:
    rounds = Speedup((1.3, 1.5, 1.1))
    assert (rounds.words, Speedup((1.31,)).words) == ("1.30×", "1.31×")
    assert Speedup((1.31,), more=True).words == "about 1.3×"
    assert str(rounds) == "1.30 (1.10–1.50), 3 rounds" and str(Speedup((1.3,))) == "1.30, 1 round"
