"""What a recording notes beside a run: what passes cost in its minute."""

import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import Round
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.trace.trace import Seconds, Trace
from ouroboros_core.what_if.beside import (
    PassClock,
    PassesBeside,
    between,
    costs_beside,
    proposing,
)
from scripts.record import kept_pace, main
from tests.traces import typed_trace


def written(pair: Pair, method: str) -> Trace:
    kind = methods.get(method)
    settings = kind.Hyperparameters.parse(kind.Hyperparameters.fixed())
    return Generation(pair, Task("Count to nine.", method, settings, max_new_tokens=24)).run()


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("method", "drafter"),
    [
        ("speculative", "draft"),
        ("eagle3", "eagle3"),
        ("draft_verify", None),
        ("prompt_lookup", None),
    ],
)
def test_passes_over_as_many_rows_as_a_run_had_are_timed_and_those_of_its_own_drafter(
    embedded_pair: Pair, method: str, drafter: str | None
) -> None:
    trace = written(embedded_pair, method)
    drafters = {"draft": embedded_pair.draft, **embedded_pair.heads}
    before = {name: drafter.passes for name, drafter in drafters.items() if drafter}
    costs = costs_beside(embedded_pair, trace)
    assert set(costs["target"].rows) == {1} | {step.width for step in trace.steps}
    asked = {name for name, one in drafters.items() if one and one.passes > before[name]}
    assert asked == ({drafter} if drafter else set())
    assert ("draft" in costs) == (drafter is not None)
    assert all(second > 0 for cost in costs.values() for second in cost.seconds)
    if drafter:
        most = max(step.draft_rows / step.draft_passes for step in trace.steps if step.draft_passes)
        assert costs["draft"].rows[0] == 1
        assert costs["draft"].rows[-1] >= most


@pytest.mark.embedded
@pytest.mark.parametrize(
    "method", ["speculative", "eagle3", "draft_verify", "superposed", "prompt_lookup"]
)
def test_a_runs_draft_passes_are_timed_while_the_clock_runs(
    embedded_pair: Pair, method: str
) -> None:
    clock = PassClock(embedded_pair)
    with clock.running():
        trace = written(embedded_pair, method)
    drafting = sum(step.seconds.draft for step in trace.steps if step.draft_passes)
    assert 0 <= proposing(trace, clock.seconds) <= drafting
    assert (clock.seconds > 0) == (method != "prompt_lookup")
    taken = clock.seconds
    assert written(embedded_pair, method).tokens == trace.tokens
    assert clock.seconds == taken, "the clock has stopped"


class Nested:
    """A drafter whose one kind of pass makes use of the other."""

    def evaluate(self) -> int:
        return 1

    def extend(self) -> int:
        return 1 + self.evaluate()


def test_a_pass_within_a_pass_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    drafter = Nested()
    clock = PassClock(SimpleNamespace(draft=drafter, self_draft=None, heads={}))  # type: ignore[arg-type]
    with clock.running():
        assert (drafter.evaluate(), drafter.extend()) == (1, 2)
    assert clock.seconds == 2.0
    assert not vars(drafter)


def test_proposing_is_what_is_left_of_drafting_in_the_steps_with_passes() -> None:
    run = typed_trace()
    one = replace(run.steps[0], draft_passes=2, seconds=Seconds(draft=5.0, draft_sampling=1.0))
    other = replace(one, draft_passes=0, seconds=Seconds(draft=7.0))
    assert proposing(replace(run, steps=(one, other, one)), 6.0) == 2.0


def taking(single: float, wide: float, draft: float | None = None) -> dict[str, PassesBeside]:
    found = {"target": PassesBeside((1, 8), (single, wide))}
    return found | ({"draft": PassesBeside((1,), (draft,))} if draft else {})


def plain_of(seconds: float) -> Round:
    """A round whose plain passes take so long, half a second of drawing tokens apart."""
    taken = Seconds(verify=seconds + 0.5, verify_sampling=0.5)
    run = typed_trace()
    return Round((replace(run, steps=tuple(replace(step, seconds=taken) for step in run.steps)),))


@pytest.mark.parametrize(
    ("plain", "before", "after", "kept"),
    [
        (0.010, taking(0.010, 0.020), taking(0.0105, 0.021), True),
        (0.010, taking(0.010, 0.020, 0.004), taking(0.0105, 0.021, 0.0042), True),
        (0.012, taking(0.010, 0.020), taking(0.010, 0.020), False),
        (0.010, taking(0.010, 0.020), taking(0.012, 0.020), False),
        (0.010, taking(0.010, 0.020), taking(0.010, 0.025), False),
        (0.010, taking(0.010, 0.020, 0.004), taking(0.010, 0.020, 0.005), False),
    ],
    ids=["steady", "with a draft", "plain", "one row", "wide passes", "the draft's"],
)
def test_a_round_counts_whose_passes_take_equally_long_on_both_sides_and_in_its_plain_run(
    plain: float, before: dict[str, PassesBeside], after: dict[str, PassesBeside], kept: bool
) -> None:
    assert kept_pace(plain_of(plain), before, after) is kept


def test_passes_cost_the_mean_of_both_sides() -> None:
    found = between(taking(0.010, 0.020), taking(0.012, 0.030))
    assert found == taking(0.011, 0.025)


def test_an_unknown_run_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["record", "fibonacci", "typo"])
    with pytest.raises(SystemExit):
        main()
    assert "unknown: typo; known are bank, bank-autoregressive" in capsys.readouterr().err
