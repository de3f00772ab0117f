"""The protocol of every measured speedup: who runs when, what counts, when it ends. On runs whose
seconds are set by hand, with a clock that is moved by hand."""

from collections.abc import Generator
from dataclasses import replace

import pytest

from ouroboros_core.benchmark import protocol
from ouroboros_core.benchmark.protocol import Measured, Round, at_once, last, measure
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Seconds, Trace
from tests.traces import typed_trace


def run_of(seconds: float) -> Trace:
    """A run of seven tokens that takes so long."""
    trace = typed_trace()
    each = Seconds(verify=seconds / len(trace.steps))
    return replace(trace, steps=tuple(replace(step, seconds=each) for step in trace.steps))


def measured(seconds: list[list[float]], rounds: int = protocol.ROUNDS) -> list[Measured]:
    """Rounds whose runs take so long, the first lane's first, each with what is known behind it."""

    def run(number: int, lane: int) -> Trace:
        return run_of(seconds[number][lane])

    found = measure(len(seconds[0]), at_once(run), rounds=rounds)
    return [one for one in found if isinstance(one, Measured)]


@pytest.fixture
def busy_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain run of less than a second stands for a busy machine."""
    monkeypatch.setattr(metrics, "busy", lambda _, plain: metrics.total_seconds(plain) < 1 or None)


@pytest.mark.usefixtures("never_busy")
@pytest.mark.parametrize(
    ("lanes", "first", "orders"),
    [
        (2, 0, ["01", "10", "01"]),
        (2, 1, ["10", "01", "10"]),
        (3, 0, ["012", "120", "210"]),
        (4, 0, ["0123", "1230", "2103"]),
    ],
)
def test_every_round_runs_each_lane_once_and_begins_with_another_one(
    lanes: int, first: int, orders: list[str]
) -> None:
    ran: list[tuple[int, int]] = []

    def run(number: int, lane: int) -> Trace:
        ran.append((number, lane))
        return run_of(1.0)

    last(measure(lanes, at_once(run), first=first))
    assert ran == [(n, int(lane)) for n, order in enumerate(orders) for lane in order]


@pytest.mark.usefixtures("never_busy")
def test_the_median_and_the_spread_are_those_of_the_rounds() -> None:
    """Computed by hand: 2 / 1, 3 / 1 and 4 / 2."""
    found = measured([[3.0, 1.0], [2.0, 1.0], [5.0, 2.0]])
    assert [one.more for one in found] == [True, True, False]
    assert [one.doing for one in found[:2]] == [f"measuring again, {n} of 3" for n in (2, 3)]
    assert [str(one.speedup()) for one in found] == [
        "3.00, 1 round",
        "2.00 (2.00–3.00), 2 rounds",
        "2.50 (2.00–3.00), 3 rounds",
    ]
    final = found[-1]
    assert final.middle() is final.every[2], "the round that has the median speedup"
    assert final.speedup(0).each == (1.0, 1.0, 1.0)
    assert (Speedup((1.5,)).between, Speedup((1.5,)).remark) == ("", "1 round")


@pytest.mark.usefixtures("busy_below_one")
def test_a_round_on_a_busy_machine_is_measured_again_at_most_twice() -> None:
    good, bad = [2.0, 1.0], [0.5, 1.0]
    found = measured([bad, good, good, bad, good])
    assert len(found) == 5 and found[-1].speedup().each == (2.0, 2.0, 2.0)
    assert found[0].speedup().each == (0.5,), "shown until there is a better one"
    assert found[0].doing == "measuring again, 1 of 3"
    assert found[0].busy == "The machine was busy in 1 round."
    assert found[1].speedup().each == (2.0,)
    few = measured([bad, bad, good, bad, good])[-1]
    assert few.speedup().each == (2.0, 2.0) and not few.enough, "only two count, and that is said"
    lone = measured([bad, bad, good, bad, bad])[-1]
    assert len(lone.rounds) == 5, "one round of five is no result"
    none = measured([bad] * 5)[-1]
    assert len(none.rounds) == 5 and all(one.busy for one in none.rounds), "the warning stands"


@pytest.mark.usefixtures("busy_below_one")
def test_a_single_round_that_is_asked_for_is_a_single_round() -> None:
    assert len(measured([[0.5, 1.0]], rounds=1)) == 1


@pytest.mark.usefixtures("never_busy")
@pytest.mark.parametrize(("seconds", "rounds"), [(29.9, 2), (30.0, 3), (0.0, 1)])
def test_no_round_begins_that_would_end_too_late(seconds: float, rounds: int) -> None:
    """A clock that each run moves by five seconds: a round takes ten."""
    now = [100.0]

    def run(*_: int) -> Trace:
        now[0] += 5
        return run_of(1.0)

    found = last(measure(2, at_once(run), seconds=seconds, clock=lambda: now[0]))
    assert len(found.rounds) == rounds and not found.more


@pytest.mark.usefixtures("never_busy")
def test_what_is_measured_stays_where_it_is_stopped_in_the_middle_of_a_round() -> None:
    """Two updates of every run come through; after five of them the third run is under way."""
    closed: list[str] = []

    def run(number: int, lane: int) -> Generator[str, None, Trace]:
        try:
            yield f"{number}{lane} begins"
            yield f"{number}{lane} goes on"
        except GeneratorExit:
            closed.append(f"{number}{lane}")
            raise
        return run_of(1.0 + lane)

    measuring: Generator[str | Measured, None, None] = measure(2, run)
    seen = [next(measuring) for _ in range(6)]
    measuring.close()
    said = [one for one in seen if isinstance(one, str)]
    assert said == ["00 begins", "00 goes on", "01 begins", "01 goes on", "11 begins"]
    (known,) = (one for one in seen if isinstance(one, Measured))
    assert known.speedup().each == (0.5,) and known.more
    assert closed == ["11"], "the run that was under way is told"


def test_a_round_is_busy_where_any_of_its_methods_says_so() -> None:
    """Plain passes over one row that take twice as long as a method's: `metrics.slowed`."""
    plain, slow = run_of(1.0), run_of(4.0)
    assert not Round((plain, plain)).busy
    assert Round((slow, slow, plain)).busy
    calm, busy = Round((plain, plain)), Round((slow, plain))
    assert [*protocol.idle([calm, busy])] == [calm]
    assert Measured.once(plain, plain).speedup().remark == "1 round"
