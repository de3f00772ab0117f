"""Predicted draft lengths: against real runs of tiny models, and against every outcome by hand."""

from dataclasses import replace
from itertools import product

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.trace import Seconds, Trace
from ouroboros_core.what_if.draft_length import LONGEST, DraftLengths, applies
from tests import tiny
from tests.traces import make_trace

DRAFT, ONE, PER_ROW = 0.1, 1.0, 0.05
"""Seconds of a draft pass, of a target pass over one row, and of each further row."""


def timed(trace: Trace) -> Trace:
    """Give each step the seconds of its passes."""
    steps = []
    for step in trace.steps:
        draft, verify = DRAFT * step.draft_passes, ONE + PER_ROW * (step.width - 1)
        steps.append(replace(step, seconds=Seconds(draft=draft, verify=verify)))
    return replace(trace, steps=tuple(steps))


@pytest.fixture(scope="module")
def runs() -> dict[int, Trace]:
    """Runs of a draft that is sometimes right, by draft length; 0 is plain decoding."""
    models = tiny.pair("llama", "sdpa")
    found = {0: make_trace(tiny.run(models, "autoregressive", tiny.prompt(), 48), "autoregressive")}
    for length in (1, 2, 4, 8):
        steps = tiny.run(models, "speculative", tiny.prompt(), 48, gamma=length)
        found[length] = make_trace(steps, "speculative")
    return {length: timed(trace) for length, trace in found.items()}


def test_shorter_drafts_take_the_passes_and_seconds_that_a_real_run_takes(
    runs: dict[int, Trace],
) -> None:
    """The oracle is the real run; a chance that is not known can move it by a pass."""
    known = DraftLengths(runs[8], runs[0])
    for length in (1, 2, 4):
        predicted, real = known.of(length), runs[length]
        assert predicted.passes == pytest.approx(len(real.steps), abs=1.5)
        seconds = sum(step.seconds.decode for step in real.steps)
        assert predicted.seconds == pytest.approx(seconds, rel=0.08)
        assert predicted.speedup == pytest.approx(48 * ONE / predicted.seconds)


def with_chances(known: DraftLengths, chances: list[float]) -> DraftLengths:
    known.__dict__["chances"] = chances
    return known


def test_an_expectation_is_the_mean_over_all_outcomes(runs: dict[int, Trace]) -> None:
    """By brute force over which guesses are right, for a short text."""
    chances = [0.5, 0.25, 1.0, 0.0, 0.75, 0.5]
    short = replace(runs[4], steps=runs[4].steps[:0])
    while sum(len(step.tokens) for step in short.steps) < len(chances):
        short = replace(short, steps=(*short.steps, runs[1].steps[0]))
    count = sum(len(step.tokens) for step in short.steps)
    chances = (chances * 2)[:count]
    for length in (1, 2, 3):
        passes = 0.0
        for right in product((True, False), repeat=count):
            weight = 1.0
            for hit, chance in zip(right, chances, strict=True):
                weight *= chance if hit else 1 - chance
            start = steps = 0
            while start < count:
                reach = min(length, count - start - 1)
                accepted = next((n for n in range(reach) if not right[start + n]), reach)
                start += accepted + 1
                steps += 1
            passes += weight * steps
        known = with_chances(DraftLengths(short, runs[0]), chances)
        assert known.of(length).passes == pytest.approx(passes)


def test_no_fixed_length_beats_the_oracle_and_it_knows_when_not_to_guess(
    runs: dict[int, Trace],
) -> None:
    known = DraftLengths(runs[4], runs[0])
    assert all(known.of(n).speedup <= known.oracle.speedup + 1e-9 for n in range(LONGEST + 1))
    never = with_chances(DraftLengths(runs[4], runs[0]), [0.0] * 48)
    assert never.oracle.passes == 48 and never.oracle.speedup == pytest.approx(1.0)
    always = with_chances(DraftLengths(runs[4], runs[0]), [1.0] * 48)
    assert always.oracle.passes == 3, "16 guesses and the target's own token in each"


def test_the_shape_of_the_machines_costs_is_scaled_to_those_of_the_run(
    runs: dict[int, Trace],
) -> None:
    costs = {1: 2.0, 5: 2.4, 9: 2.8}  # twice as slow as the run, of the same shape
    linear = DraftLengths(replace(runs[4], costs={}), runs[0])
    shaped = DraftLengths(replace(runs[4], costs=costs), runs[0])
    for length in (1, 4, 8):
        assert shaped.of(length).seconds == pytest.approx(linear.of(length).seconds)
    steeper = DraftLengths(replace(runs[4], costs=costs | {9: 5.6}), runs[0])
    # Half of the file's seconds, as the run's passes over one and five rows take.
    passes = [steeper._pass_seconds(rows) for rows in (1, 5, 7, 9)]
    assert passes == pytest.approx([1.0, 1.2, 2.0, 2.8])


def test_costs_of_a_file_that_fall_with_the_rows_are_taken_as_level(runs: dict[int, Trace]) -> None:
    falling = DraftLengths(replace(runs[4], costs={1: 4.0, 4: 1.0}), runs[0])
    level = DraftLengths(replace(runs[4], costs={1: 4.0, 4: 4.0}), runs[0])
    assert falling.of(8) == level.of(8) and level.of(8).seconds > 0


def test_steps_of_very_different_widths_are_no_obstacle(runs: dict[int, Trace]) -> None:
    """No step has the mean of the two widths."""
    steps = (runs[4].steps[0], runs[0].steps[0])
    assert {step.width for step in steps} == {5, 1}
    assert DraftLengths(replace(runs[4], steps=steps), runs[0]).of(2).speedup > 0


def test_a_run_of_another_method_or_rule_is_refused(runs: dict[int, Trace]) -> None:
    assert applies(runs[4]) and not applies(runs[0])
    sampled = {**runs[4].sampling, "temperature": 1.0, "acceptance": "rejection"}
    assert not applies(replace(runs[4], sampling=sampled))
    assert not applies(replace(runs[4], grammar={"regex": "a"})), "it forces tokens"
    with pytest.raises(InvalidInput, match="predicted from a run of speculative decoding"):
        DraftLengths(runs[0], runs[0])
