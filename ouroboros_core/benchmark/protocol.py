"""The protocol of every speedup that is measured on one prompt: recorded, raced or compared.

Plain decoding and the methods alternate. A round runs each of them once, and begins with another
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

from ouroboros_core.messages import counted
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Trace

ROUNDS, AGAIN = 3, 2
"""Rounds that count, and rounds on a busy machine that are measured again."""

T = TypeVar("T")
RunLane = Callable[[int, int], Generator[T, None, Trace]]
"""Runs a lane of a round, both counted from 0; the caller gets the values that it yields."""


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
    return [round_ for round_ in rounds if not round_.busy]


@dataclass(frozen=True)
class Measured:
    """The rounds that were measured so far.

    every   all rounds, in their order
    steady  rounds on an idle machine
    wanted  number of rounds that count
    more    whether another round follows
    """

    every: tuple[Round, ...]
    steady: tuple[Round, ...]
    wanted: int = ROUNDS
    more: bool = False

    @classmethod
    def once(cls, plain: Trace, *traces: Trace) -> Measured:
        alone = (Round((plain, *traces)),)
        return cls(alone, alone, 1)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Return the idle rounds; at the end all, if fewer than two were idle."""
        few = len(self.steady) < (1 if self.more else min(2, self.wanted))
        return self.every if few else self.steady[: self.wanted]

    @property
    def enough(self) -> bool:
        return len(self.steady) >= self.wanted

    @property
    def doing(self) -> str:
        """Return a status about the next round."""
        return f"measuring again, {len(self.steady) + 1} of {self.wanted}"

    @property
    def busy(self) -> str:
        """Return in how many rounds the machine was busy, in words; empty for none."""
        busy = len(self.every) - len(self.steady)
        return f"The machine was busy in {counted(busy, 'round')}." if busy else ""

    def traces(self, lane: int) -> tuple[Trace, ...]:
        return tuple(round_.traces[lane] for round_ in self.rounds)

    def speedup(self, lane: int = 1) -> Speedup:
        return Speedup(tuple(round_.speedup(lane) for round_ in self.rounds), self.more)

    def middle(self, lane: int = 1) -> Round:
        """The round that has the lane's median speedup."""
        return self.rounds[self.speedup(lane).middle]


def order(lanes: int, number: int) -> list[int]:
    """The lanes in the order in which round `number`, from 0 on, runs them. The third of three goes
    backwards, so that of several lanes none is behind the same other one in every round, in caches
    that this one has left."""
    direction = -1 if number % 3 == 2 else 1
    return [(number + direction * offset) % lanes for offset in range(lanes)]


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
    """Measure all lanes round by round; yields the values that the runs yield, and after each round
    the rounds so far. Closing it ends the measurement.

    rounds   number of rounds that count
    again    limit of further rounds, which replace rounds on a busy machine; a single round is
             never replaced
    first    the lane that begins the first round
    seconds  limit of the whole measurement: another round begins only if it ends in time when it
             is as slow as the slowest so far
    """
    limit = rounds + again if rounds > 1 else 1
    done: list[Round] = []
    began, slowest, again_needed = clock(), 0.0, True
    while again_needed:
        start, traces = clock(), {}
        for lane in order(lanes, first + len(done)):
            traces[lane] = yield from run(len(done), lane)
        done.append(Round(tuple(traces[lane] for lane in range(lanes))))
        time_now = clock()
        slowest = max(slowest, time_now - start)
        steady_rounds = tuple(steady(done))
        in_time = time_now + slowest - began <= seconds
        again_needed = len(steady_rounds) < rounds and len(done) < limit and in_time
        yield Measured(tuple(done), steady_rounds, rounds, again_needed)


def last(measuring: Generator[T | Measured, None, None]) -> Measured:
    *_, measured = measuring
    assert isinstance(measured, Measured)
    return measured
