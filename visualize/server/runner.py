"""Runs, races and sweeps of all visitors, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.errors import InvalidInput
from visualize import play
from visualize.server.compute import Compute
from visualize.server.lent import ZERO, lent
from visualize.server.limits import Budget, Limits
from visualize.server.models import Models
from visualize.server.showing import STATUS_INTERVAL
from visualize.server.turn import Account, Turns
from visualize.server.updates import (
    PlayUpdate,
    ProofUpdate,
    RaceUpdate,
    RunUpdate,
    SweepProgress,
    SweepStarted,
    SweepUpdate,
)

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Sweep
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory

LENT_SECONDS = 100.0
"""At most, on a GPU that is lent."""
ROUND_SECONDS = 20.0
"""There, of a round of "Be the draft"."""


class Runner:
    """What the tabs and the endpoint share: the models, the queue and the budgets."""

    def __init__(self, models: Models, limits: Limits = Limits(), waiting: int = 1000) -> None:  # noqa: B008 - frozen
        """waiting: how many may wait while one computes."""
        self.models, self.limits = models, limits
        self._tokens = Account(Budget(limits.tokens, "tokens"), lambda log: log.tokens)
        self._seconds = Account(
            Budget(limits.sweep_seconds, "seconds of sweeps"), lambda log: log.seconds
        )
        self._turns = Turns(models, waiting)
        compute = Compute(models)
        self._compute = lent(
            compute.run, lambda _, task, *more: _lent_seconds([task, task], more[-2])
        )
        self._race = lent(
            compute.race, lambda _, tasks, *__: _lent_seconds([task for _, task in tasks], ROUNDS)
        )
        self._prove = lent(compute.prove, lambda *_: LENT_SECONDS)
        self._play = lent(compute.play, lambda *_: ROUND_SECONDS)

    def run(
        self,
        task: Task,
        compare: bool,
        charts: bool = True,
        memory: Callable[[Pair], Memory | None] | None = None,
        *,
        pair: str = "",
        visitor: str = "",
    ) -> Generator[RunUpdate, None, None]:
        """Run a task, and plain decoding in turn with it where it is compared.

        memory   gives what the method kept of the visitor's earlier runs, for a warm start
        pair     the models' name; visitor: whose budget it is
        Raises InvalidInput for what cannot run, before anything does.
        """
        most = task.max_new_tokens
        with self._turns.take(
            "run", self._tokens, pair=pair, visitor=visitor, wanted=most, task=task
        ) as turn:
            yield from turn.wait()
            turn.begin(most)
            learned = memory(turn.pair) if memory else None
            rounds = ROUNDS if compare else 0
            seconds = self._seconds_of([task, task])
            yield from turn.follow(
                self._compute(pair, task, turn.name, charts, learned, rounds, seconds)
            )

    def _seconds_of(self, tasks: Sequence[Task]) -> float:
        """In which these must end with all their rounds."""
        return 0.9 * _lent_seconds(tasks, ROUNDS) if ZERO else self.limits.round_seconds

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
            seconds = self._seconds_of([task for _, task in tasks])
            yield from turn.follow(self._race(pair, tasks, turn.name, seconds))
            turn.log.facts["ending"] = "done"

    def play(
        self,
        beginning: str,
        context: tuple[int, ...],
        typed: str,
        *,
        pair: str = "",
        visitor: str = "",
    ) -> Generator[PlayUpdate, None, None]:
        """A round of "Be the draft"; it takes the rows of its passes from a visitor's tokens."""
        with self._turns.take(
            "play", self._tokens, pair=pair, visitor=visitor, wanted=play.ROWS
        ) as turn:
            yield from turn.wait()
            turn.begin(play.ROWS)
            yield from turn.follow(self._play(pair, beginning, context, typed))
            turn.log.facts["ending"] = "done"

    def prove(
        self, task: Task, seeds: int, length: int, *, pair: str = "", visitor: str = ""
    ) -> Generator[ProofUpdate, None, None]:
        """The first tokens of a task with many seeds, in the time that a sweep may take."""
        most = seeds * task.max_new_tokens
        seconds = LENT_SECONDS * 0.9 if ZERO else 60 * self.limits.sweep_minutes
        with self._turns.take(
            "proof", self._tokens, pair=pair, visitor=visitor, wanted=most, methods=[task.method]
        ) as turn:
            yield from turn.wait()
            turn.begin(most)
            yield from turn.follow(self._prove(pair, task, seeds, length, seconds, turn.name))
            turn.log.facts["ending"] = "done"

    def sweep(
        self, make: Callable[[Pair], Sweep], *, pair: str = "", visitor: str = ""
    ) -> Generator[SweepUpdate, None, None]:
        """Make a sweep and do what is left of it."""
        if ZERO:
            raise InvalidInput(
                f"the GPU of this page is lent for at most {LENT_SECONDS:.0f} seconds at a time, "
                "which is too short for a sweep: run the page on your own machine with make run"
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


def _lent_seconds(tasks: Sequence[Task], rounds: int) -> float:
    """How long so many rounds of these, at least one, may take on a GPU that is lent: 0.1 s a token
    is slow there."""
    tokens = max(1, rounds) * sum(task.max_new_tokens for task in tasks)
    return min(LENT_SECONDS, 15 + 0.1 * tokens)
