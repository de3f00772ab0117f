"""The protocol of every speedup that is measured on one prompt: recorded, raced or compared.

Plain decoding and the methods run in turn. A round runs each of them once, and begins with another
one than the round before, so that a machine that becomes slower slows all of them. A speedup
belongs to one round: both of its runs stand beside each other in time. The median of three rounds
is shown, with the least and the largest. A round on a busy machine does not count and is measured
again, at most twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Speedup
from ouroboros_core.trace.trace import Trace
from ouroboros_core.words import counted

ROUNDS, AGAIN = 3, 2
"""Rounds that count, and rounds on a busy machine that are measured again."""

T = TypeVar("T")
RunLane = Callable[[int, int], Generator[T, None, Trace]]
"""Runs a lane of a round, both counted from 0; what it yields goes to whoever asked."""


@dataclass(frozen=True)
class Round:
    """One run of every lane, in the order of the lanes; the first is plain decoding."""

    traces: tuple[Trace, ...]

    @property
    def plain(self) -> Trace:
        return self.traces[0]

    @property
    def busy(self) -> bool:
        """Whether the machine was busy with something else, by any of the runs."""
        return any(metrics.busy(trace, self.plain) for trace in self.traces[1:])

    def speedup(self, lane: int) -> float:
        """0 for an empty run."""
        return metrics.speedup(self.traces[lane], self.plain) or 0.0


Steady = Callable[[Sequence[Round]], Sequence[Round]]
"""Which rounds were measured on an idle machine."""


def idle(rounds: Sequence[Round]) -> Sequence[Round]:
    """Those without a sign that the machine was busy."""
    return [one for one in rounds if not one.busy]


@dataclass(frozen=True)
class Measured:
    """What was measured so far.

    every   all rounds, in their order
    steady  those on an idle machine
    wanted  how many are to count
    more    whether another round follows
    """

    every: tuple[Round, ...]
    steady: tuple[Round, ...]
    wanted: int = ROUNDS
    more: bool = False

    @classmethod
    def once(cls, plain: Trace, *traces: Trace) -> Measured:
        """A single round."""
        alone = (Round((plain, *traces)),)
        return cls(alone, alone, 1)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Those that count: on an idle machine; all where it was never idle, and then a warning is
        due."""
        return self.steady[: self.wanted] or self.every

    @property
    def enough(self) -> bool:
        return len(self.steady) >= self.wanted

    @property
    def doing(self) -> str:
        """What follows, as a status says it."""
        busy = len(self.every) - len(self.steady)
        aside = f"; the machine was busy in {counted(busy, 'round')}" if busy else ""
        return f"measuring again, {len(self.steady) + 1} of {self.wanted}{aside}"

    def traces(self, lane: int) -> tuple[Trace, ...]:
        return tuple(one.traces[lane] for one in self.rounds)

    def speedup(self, lane: int = 1) -> Speedup:
        return Speedup(tuple(one.speedup(lane) for one in self.rounds))

    def middle(self, lane: int = 1) -> Round:
        """The round that has the lane's median speedup."""
        shown = self.speedup(lane).median
        return next(one for one in self.rounds if one.speedup(lane) == shown)

    def run(self, lane: int) -> Trace:
        """The run whose seconds are the median; of two in the middle the slower one."""
        traces = sorted(self.traces(lane), key=metrics.total_seconds)
        return traces[len(traces) // 2]


def order(lanes: int, number: int) -> list[int]:
    """The lanes in the order in which round `number`, from 0 on, runs them. The third of three goes
    backwards, so that of several lanes none is behind the same other one in every round, in caches
    that this one has left."""
    way = -1 if number % 3 == 2 else 1
    return [(number + way * place) % lanes for place in range(lanes)]


def at_once(run: Callable[[int, int], Trace]) -> RunLane[T]:
    """A run that yields nothing on its way."""

    def running(number: int, lane: int) -> Generator[T, None, Trace]:
        yield from ()
        return run(number, lane)

    return running


def measure(
    lanes: int,
    run: RunLane[T],
    *,
    rounds: int = ROUNDS,
    again: int = AGAIN,
    first: int = 0,
    seconds: float = inf,
    steady: Steady = idle,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[T | Measured, None, None]:
    """Measure all lanes round by round; yields what the runs yield, and after every round what was
    measured so far. To close it ends the measurement.

    rounds   how many are to count
    again    rounds beyond these, in place of those on a busy machine; of a single round that is
             wanted there is no other
    first    the lane that begins the first round
    seconds  another round begins only if it ends within so many from the begin on, were it as slow
             as the slowest so far
    """
    most = rounds + again if rounds > 1 else 1
    done: list[Round] = []
    began, slowest, more = clock(), 0.0, True
    while more:
        start, traces = clock(), {}
        for lane in order(lanes, first + len(done)):
            traces[lane] = yield from run(len(done), lane)
        done.append(Round(tuple(traces[lane] for lane in range(lanes))))
        now = clock()
        slowest = max(slowest, now - start)
        found = tuple(steady(done))
        in_time = now + slowest - began <= seconds
        more = len(found) < rounds and len(done) < most and in_time
        yield Measured(tuple(done), found, rounds, more)


def last(measuring: Generator[T | Measured, None, None]) -> Measured:
    """Measure to the end."""
    *_, found = measuring
    assert isinstance(found, Measured)
    return found
