"""The figures of a run: counted by hand in three typed steps and ten plain ones, and equal to the
functions of `metrics` that compute them alone."""

from dataclasses import replace

import pytest

from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary, Verdict
from ouroboros_core.trace.trace import Trace
from tests.traces import make_trace, plain_trace, typed_trace

TIE = Divergence(5, 7, 8, 0.125, 2.0, "bfloat16")
FAR = Divergence(5, 7, 8, 0.25, 4.0, "bfloat16")


def test_the_figures_of_a_run_are_those_counted_by_hand() -> None:
    run = Summary(typed_trace(), plain_trace())
    assert (run.tokens, run.steps, run.draft_passes, run.passes_saved) == (7, 3, 5, 4)
    assert (run.seconds, run.prefill_seconds) == pytest.approx((1.3, 0.5))
    assert run.tokens_per_second == pytest.approx(7 / 1.3)
    assert (run.tokens_per_pass, run.rows_per_pass) == (7 / 3, 3.0)
    assert (run.acceptance_rate, run.proposal_acceptance_rate) == (5 / 6, 5 / 6)
    assert run.proposal_depth == 2.0
    assert run.plain is not None and run.plain.tokens_per_second == pytest.approx(10 / 1.5)
    assert run.speedup == pytest.approx((7 / 1.3) / (10 / 1.5))
    assert run.step_cost == pytest.approx(0.8 / 3 / 0.1)
    assert run.draft_cost == pytest.approx(0.3 / 5 / 0.1)
    assert run.busy == metrics.busy(run.trace, plain_trace())


def test_a_run_alone_or_empty_has_no_figure_that_compares() -> None:
    for run in (Summary(typed_trace()), Summary(make_trace([])), Summary(make_trace([]), None)):
        compared = (run.plain, run.speedup, run.busy, run.step_cost, run.draft_cost)
        assert compared == (None,) * 5 and run.first_difference is None
        assert (run.why_busy, run.difference_sentence) == ("", "")
    empty = Summary(make_trace([]))
    assert (empty.tokens_per_second, empty.tokens_per_pass, empty.rows_per_pass) == (0, 0, 0)


def test_the_speedup_of_several_rounds_is_their_median() -> None:
    rounds = Speedup((1.3, 1.5, 1.1))
    assert Summary(typed_trace(), plain_trace(), rounds=rounds).speedup == 1.3


def alone(trace: Trace) -> Trace:
    steps = tuple(replace(step, writer=Source.DRAFT) for step in trace.steps)
    return replace(trace, steps=steps)


def sampled(rule: str) -> Trace:
    return make_trace(
        list(typed_trace().steps), sampling=Sampling(temperature=1.0, acceptance=rule)
    )


OTHER = make_trace(list(typed_trace().steps[:2]))


@pytest.mark.parametrize(
    ("run", "verdict", "lossless"),
    [
        (Summary(typed_trace()), Verdict.NOT_COMPARED, True),
        (Summary(typed_trace(), typed_trace()), Verdict.SAME, True),
        (Summary(typed_trace(), OTHER), Verdict.DIFFERENT, True),
        (Summary(typed_trace(), OTHER, TIE), Verdict.TIE, True),
        (Summary(typed_trace(), OTHER, FAR), Verdict.DIFFERENT, True),
        (Summary(sampled("rejection"), OTHER), Verdict.IN_DISTRIBUTION, True),
        (Summary(sampled("typical"), OTHER), Verdict.NOT_LOSSLESS, False),
        (Summary(alone(typed_trace()), OTHER), Verdict.DIFFERENT, False),
        (Summary(alone(typed_trace()), typed_trace()), Verdict.SAME, False),
        (Summary(alone(sampled("rejection")), OTHER), Verdict.DIFFERENT, False),
    ],
)
def test_the_verdict_on_the_text(run: Summary, verdict: Verdict, lossless: bool) -> None:
    assert (run.verdict, run.lossless) == (verdict, lossless)
