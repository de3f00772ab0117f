"""The tour of a recorded run: its pace and its words; the oracle is the trace by hand."""

import pytest

from ouroboros_core.trace.summary import Summary
from tests.traces import plain_trace, typed_trace
from visualize.gallery import runs as gallery
from visualize.run import tour as tours
from visualize.run import view as views

ENDS = (0.9, 1.1, 1.3)
"""Seconds at which the steps of the trace by hand end."""


def made() -> tours.Tour:
    summary = Summary(typed_trace(), plain_trace())
    return tours.tour(summary, lambda token: f"t{token}")


def test_a_tour_goes_slowly_halts_at_the_longest_step_and_waits_for_plain_decoding() -> None:
    seconds = [second for _, second in made().points]
    # The second step wrote three tokens, the others two.
    halts = [0, ENDS[0], ENDS[1], ENDS[1], ENDS[2], ENDS[2], 1.5]
    assert seconds == pytest.approx(halts, abs=1e-3)
    assert seconds == sorted(seconds)
    played = [second for second, _ in made().points]
    slow, halt = tours.SLOW, tours.HALT
    assert played[:4] == [0, slow, 2 * slow, 2 * slow + halt]
    assert made().length == 3 * slow + halt + tours.REST_OF_RUN + tours.REST_OF_PLAIN


def test_its_words_are_those_of_the_step() -> None:
    words = [words for _, words in made().captions if words]
    assert words[0] == "Step 1: 2 tokens guessed, 1 kept. The target writes ‘t12’."
    # 0.5 s of prefill, then a token each tenth of a second: five at 1.1 s, one of them just then.
    longest = (
        "3 tokens from one forward pass, which checks all guesses. 5 by now; plain decoding 6."
    )
    assert words[2] == words[-1] == longest
    assert words[-2] == "All 7 tokens after 1.3 s. Plain decoding needs 0.2 s more."


def test_the_recorded_runs_take_about_25_seconds() -> None:
    for name in ("java-union", "stack-union", "java-ouroboros"):
        run = gallery.trace(name)
        made = tours.tour(Summary(run, gallery.baseline(name)), views.piece_of(run))
        assert 18 <= made.length <= 28, name
        assert made.played(0) == 0 and made.played(1e9) == made.length
        lengths, longest = [len(step.tokens) for step in run.steps], tours.longest_step(run)
        assert lengths[longest] >= tours.NEARLY * max(lengths) > max(lengths[:longest], default=0)
