"""A sweep as a job, which a visitor stops and resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from ouroboros_core.trace.trace import Trace
from visualize.server.jobs import STATUS_INTERVAL, Job, Turn, Update
from visualize.server.queue import Rank
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sweeps.sweep import Run, Sweep


@dataclass(frozen=True)
class SweepStarted(Update):
    """A sweep computes now; it holds its runs, done and left."""

    sweep: Sweep


@dataclass(frozen=True)
class SweepProgress(Update):
    """`status` names the run under way; `done` is a run that has just ended."""

    pausable = True
    status: str
    done: Run | None = None


@dataclass(frozen=True)
class SweepJob(Job):
    """Measure the runs that are left of a sweep.

    make   returns the sweep for the models, new or begun earlier; raises InvalidInput
    sweep  the result of `make`

    Updates: one SweepStarted, then SweepProgress. A sweep takes too long for a lent GPU, so its
    updates may hold the sweep itself.
    """

    kind = "sweep"
    charges = "seconds"
    rank = Rank.SERIES
    make: Callable[[Pair], Sweep]
    sweep: Sweep | None = None

    @property
    def cost(self) -> float | None:
        return self.sweep.seconds_left if self.sweep else None

    def prepared(self, pair: Pair) -> Self:
        return replace(self, sweep=self.make(pair))

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        """Yield when a run has ended, and now and then meanwhile."""
        assert self.sweep is not None, "the job is prepared"
        yield SweepStarted(self.sweep, facts={"method": self.sweep.grid.method})
        self.sweep.pauses = lambda: turn.pauses
        status, due, tokens = "", 0.0, 0

        def note(doing: str) -> None:
            nonlocal status
            status = doing

        for done in self.sweep.ticks(note):
            now = time.monotonic()
            if done is not None:
                _, trace, _ = done
                tokens += len(trace.tokens)
            if done is not None or now >= due:
                due = now + STATUS_INTERVAL
                yield SweepProgress(status, done, tokens=tokens)


@dataclass
class SweepResults:
    """The runs of a sweep.

    traces  of each cell the latest run with its plain one
    priced  of each cell what every run would take on other machines
    clock   the machine whose seconds the charts show; empty for this one, which is measured
    """

    sweep: Sweep
    traces: dict[int, tuple[Trace, Trace]] = field(default_factory=dict)
    priced: dict[int, list[dict[str, what_if_view.ModelledTime]]] = field(default_factory=dict)
    clock: str = ""

    def add(self, run: Run) -> None:
        """Add a run that has ended."""
        point, trace, plain = run
        self.traces[point.cell] = trace, plain
        self.priced.setdefault(point.cell, []).append(what_if_view.modelled_times(trace))


@dataclass
class VisitorSweep:
    """The last sweep of one visitor."""

    results: SweepResults | None = None

    def of(self, sweep: Sweep) -> SweepResults:
        """Return the results of a sweep; another sweep replaces the last one."""
        if self.results is None or self.results.sweep is not sweep:
            self.results = SweepResults(sweep)
        return self.results
