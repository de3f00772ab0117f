"""Runs, races and sweeps of all visitors, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ouroboros_core.decoding import metrics
from ouroboros_core.errors import InvalidInput
from visualize.server.baselines import Baselines
from visualize.server.compute import STATUS_INTERVAL, Compute
from visualize.server.lent import ZERO, lent
from visualize.server.limits import Budget, Limits
from visualize.server.models import Models
from visualize.server.turn import Account, Turns
from visualize.server.updates import (
    Finished,
    RaceUpdate,
    RunUpdate,
    SweepProgress,
    SweepStarted,
    SweepUpdate,
)

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Sweep
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory

LENT_SECONDS = 100.0
"""At most, on a GPU that is lent."""


class Runner:
    """What the tabs and the endpoint share: the models, the queue and the budgets."""

    def __init__(self, models: Models, limits: Limits = Limits(), waiting: int = 1000) -> None:  # noqa: B008 - frozen
        """waiting: how many may wait while one computes."""
        self.models, self.limits = models, limits
        self._tokens = Account(Budget(limits.tokens, "tokens"), lambda log: log.tokens)
        self._seconds = Account(
            Budget(limits.sweep_seconds, "seconds of sweeps"), lambda log: log.seconds
        )
        self._baselines = Baselines()
        self._turns = Turns(models, waiting)
        compute = Compute(models)
        self._compute = lent(compute.run, lambda _, task, *__: _lent_seconds([task, task]))
        self._race = lent(
            compute.race, lambda _, tasks, __: _lent_seconds([task for _, task in tasks])
        )

    def run(
        self,
        task: Task,
        compare: bool,
        charts: bool = True,
        memory: Callable[[Pair], Memory | None] | None = None,
        fresh: bool = False,
        *,
        pair: str = "",
        visitor: str = "",
    ) -> Generator[RunUpdate, None, None]:
        """Run a task and then, unless already measured, plain decoding.

        memory   gives what the method kept of the visitor's earlier runs, for a warm start
        fresh    whether plain decoding is measured again, even where it was already
        pair     the models' name; visitor: whose budget it is
        Raises InvalidInput for what cannot run, before anything does.
        """
        most = task.max_new_tokens
        with self._turns.take(
            "run", self._tokens, pair=pair, visitor=visitor, wanted=most, task=task
        ) as turn:
            yield from turn.wait()
            turn.begin(most)
            key = Baselines.key(turn.pair, task, visitor)
            known = self._baselines.get(key) if compare and not fresh else None
            learned = memory(turn.pair) if memory else None
            computing = self._compute(pair, task, turn.name, compare, charts, learned, known)
            with closing(turn.follow(computing)) as updates:
                for update in updates:
                    yield update
                    self._keep(key, update, known)

    def _keep(self, key: str, update: RunUpdate, known: Trace | None) -> None:
        """Remember a plain run that is new, unless it was measured while the machine was busy."""
        match update:
            case Finished(trace=trace, baseline=baseline) if baseline is not None:
                # Compared by value: what a worker sends back is a copy.
                if baseline != known and metrics.busy(trace, baseline) is None:
                    self._baselines.put(key, baseline)

    def race(
        self, tasks: Sequence[tuple[str, Task]], *, pair: str = "", visitor: str = ""
    ) -> Generator[RaceUpdate, None, None]:
        """Run named tasks in turn, the first of them plain decoding."""
        most = sum(task.max_new_tokens for _, task in tasks)
        ids = [task.method for _, task in tasks]
        with self._turns.take(
            "race", self._tokens, pair=pair, visitor=visitor, wanted=most, methods=ids
        ) as turn:
            yield from turn.wait()
            turn.begin(most)
            yield from turn.follow(self._race(pair, tasks, turn.name))
            turn.log.facts["ending"] = "done"

    def sweep(
        self, make: Callable[[Pair], Sweep], *, pair: str = "", visitor: str = ""
    ) -> Generator[SweepUpdate, None, None]:
        """Make a sweep and do what is left of it."""
        if ZERO:
            raise InvalidInput(
                "the GPU of this page is lent for a minute at a time, which is too short for a "
                "sweep: run the page on your own machine with make run"
            )
        with self._turns.take("sweep", self._seconds, pair=pair, visitor=visitor) as turn:
            yield from turn.wait()
            sweep = make(turn.pair)
            turn.begin(sweep.seconds_left)
            yield from turn.follow(_sweeping(sweep))
            turn.log.facts["ending"] = "done"


def _sweeping(sweep: Sweep) -> Generator[SweepUpdate, None, None]:
    """Do what is left of a sweep; says so when a run has ended, and now and then meanwhile."""
    yield SweepStarted(sweep)
    said, due = "", 0.0

    def tell(what: str) -> None:
        nonlocal said
        said = what

    for done in sweep.ticks(tell):
        now = time.monotonic()
        if done is not None or now >= due:
            due = now + STATUS_INTERVAL
            yield SweepProgress(said, done)


def _lent_seconds(tasks: Sequence[Task]) -> float:
    """How long these may take on a GPU that is lent: 0.1 s a token is slow there."""
    return min(LENT_SECONDS, 15 + 0.1 * sum(task.max_new_tokens for task in tasks))
