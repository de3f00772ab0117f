"""The numbers of a run: counted by hand, and sums that must agree."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Trace
from ouroboros_core.tree import Learned
from tests.traces import plain_trace, real_trace, typed_trace
from visualize.run import diagnosis
from visualize.run import view as views


def test_kinds_and_numbers_of_a_trace_typed_by_hand() -> None:
    """Those of a whole run are in test_summary.py."""
    trace = typed_trace()
    assert trace.tokens == (10, 12, 20, 21, 22, 30, 31)
    assert [step.kind for step in trace.steps] == ["correction", "bonus", None]
    assert [step.tested for step in trace.steps] == [2, 2, 2]
    assert metrics.draft_passes_per_draft_token(trace) == 5 / 5
    sources = " ".join(source.value for source in metrics.token_sources(trace))
    assert sources == "draft target draft suffix target draft draft"
    assert metrics.accepted_by_learned(trace) == {Learned.HISTORY: 1}
    assert metrics.acceptance_by_position(trace) == [(3, 3), (3, 2)]
    assert metrics.decode_seconds(trace) == pytest.approx(0.8)
    assert metrics.seconds_to_token(trace) == pytest.approx([0.9, 0.9, 1.1, 1.1, 1.1, 1.3, 1.3])


def test_tokens_by_source_add_up_and_nothing_is_accepted_that_was_not_proposed() -> None:
    trace = real_trace()
    accepted = Counter(metrics.token_sources(trace))
    proposed = Counter(p.source for step in trace.steps for p in step.tree.provenance[1:])
    assert accepted.total() == metrics.new_tokens(trace) == len(trace.tokens) == len(trace.texts)
    assert all(accepted[s] <= proposed[s] for s in accepted if s is not Source.TARGET)


def timed(trace: Trace, seconds: Sequence[float], width: int = 1) -> Trace:
    """Return a trace with one step for each of `seconds`: a pass over `width` rows that took them,
    and nothing else."""
    step = replace(trace.steps[0], width=width)
    passes = [replace(step, index=n, seconds=Seconds(verify=s)) for n, s in enumerate(seconds)]
    return replace(trace, steps=tuple(passes), texts=trace.texts[:1] * len(passes))


def test_the_spread_of_equal_passes_is_the_interquartile_range_over_the_median() -> None:
    """Counted by hand: of 1 to 9 tenths the quartiles (exclusive) are 0.25, 0.5 and 0.75."""
    plain = plain_trace()
    tenths = [n / 10 for n in range(1, 10)]
    assert metrics.pass_spread(timed(plain, tenths)) == pytest.approx((0.75 - 0.25) / 0.5)
    assert metrics.pass_spread(timed(plain, [0.1] * 7)) is None, "too few to tell"
    narrow, wide = timed(plain, [0.1] * 8), timed(plain, [0.5] * 8, width=6)
    unlike = [replace(step, width=n + 10) for n, step in enumerate(timed(plain, tenths).steps)]
    for others in (wide.steps, unlike):  # wider passes may take longer, and of no two the same
        both = replace(narrow, steps=(*narrow.steps, *others))
        assert metrics.pass_spread(both) == pytest.approx(0)


def judged_busy(trace: Trace, plain: Trace) -> list[object]:
    return list(metrics.busy(trace, plain) or ())


def test_a_speedup_that_passes_cannot_explain_is_said_to_be_measured_on_a_busy_machine() -> None:
    """typed_trace yields 7 tokens in 3 steps; plain decoding needs 7 steps."""

    def even(trace: Trace, seconds: float) -> Trace:
        took = Seconds(verify=seconds)
        return replace(trace, steps=tuple(replace(step, seconds=took) for step in trace.steps))

    def plain(factor: float) -> Trace:
        """Plain decoding whose equal passes take `factor` times as long."""
        return even(plain_trace(), 0.1 * factor)

    trace = even(typed_trace(), 0.1)
    length = metrics.mean_acceptance_length(trace)
    assert metrics.speedup(trace, plain(1.1)) == pytest.approx(1.1 * length)
    assert metrics.busy(trace, plain(1.0)) is None
    assert metrics.busy(trace, plain(1.04)) is None, "what is usual between two runs"
    assert "mark" not in views.tiles(Summary(trace, plain(1.04)))[1]
    assert "busy" not in diagnosis.diagnosis(Summary(trace, plain(1.04)))[0]
    assert judged_busy(trace, plain(1.1)) == ["beyond", pytest.approx(1.1)]
    unlike = replace(trace, steps=tuple(replace(step, writer=Source.DRAFT) for step in trace.steps))
    for factor in (1.1, 2.0):
        assert metrics.busy(unlike, plain(factor)) is None, "a draft model's passes are cheaper"
    assert judged_busy(trace, plain(2.0)) == ["slowed", pytest.approx(2.0)]
    steady = timed(plain_trace(), [0.1] * 9)
    unsteady = timed(plain_trace(), [0.06, 0.07, 0.08, 0.1, 0.1, 0.1, 0.12, 0.13, 0.14])
    assert metrics.busy(steady, steady) is None
    for pair in ((steady, unsteady), (unsteady, steady)):
        assert judged_busy(*pair) == ["unsteady", pytest.approx(metrics.pass_spread(unsteady))]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("ab" + "cd" * 6, 4),
        ("ab" + "cd" * 5 + "c", None),  # eleven tokens
        ("ab" + "cd" * 6 + "c", 4),
        ("a" * 12, 1),
        ("a" * 11, None),
        ("xy" + "abcde" * 3, 7),
        ("xy" + "abcdef" * 2 + "abcde", None),  # not three rounds
        ("cd" * 9 + ".", None),  # it goes on, or ends by itself
        ("a", None),
        ("", None),
    ],
)
def test_where_a_text_begins_to_repeat_itself_until_it_ends(text: str, start: int | None) -> None:
    assert metrics.loop_start([ord(letter) for letter in text]) == start


def test_a_search_for_repetitions_by_brute_force_finds_the_same() -> None:
    """The definition, word for word, over every tail and every cycle."""
    chance = random.Random(5)
    looped = 0
    for _ in range(400):
        cycle = [chance.randrange(3) for _ in range(chance.randint(1, 6))]
        text = [chance.randrange(3) for _ in range(chance.randint(0, 8))]
        text += (cycle * 6)[: chance.randint(0, 24)]
        starts = [
            tail + long
            for tail in range(len(text))
            for long in range(1, len(text) + 1)
            if len(text) - tail >= max(metrics.LOOP_ROUNDS * long, metrics.LOOP_TOKENS)
            and all(text[n] == text[n - long] for n in range(tail + long, len(text)))
        ]
        assert metrics.loop_start(text) == min(starts, default=None)
        looped += bool(starts)
    assert 40 < looped < 360
