"""The runner: checks, queues, computes and logs the jobs of all visitors, one at a time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

from ouroboros_core.errors import InvalidInput
from visualize.server.jobs import STATUS_INTERVAL, Job, Turn, Update, Waiting
from visualize.server.limits import Budget, Limits
from visualize.server.log import entry
from visualize.server.models import Models
from visualize.server.queue import RunQueue, Ticket
from visualize.server.zero_gpu import LENT_SECONDS, ZERO, on_lent_gpu

LOADING = "Waiting for the models to load …"


class Runner:
    """The models, the queue and the budgets that all features share."""

    def __init__(self, models: Models, limits: Limits = Limits(), waiting: int = 1000) -> None:  # noqa: B008 - frozen
        """waiting: how many jobs may wait while one computes."""
        self.models, self.limits = models, limits
        self._budgets = {
            "tokens": Budget(limits.tokens, "tokens"),
            "seconds": Budget(limits.sweep_seconds, "seconds of sweeps"),
        }
        self._queue = RunQueue(waiting)
        self._carried_out = on_lent_gpu(self._compute, _lent_seconds) if ZERO else self._compute

    def submit(
        self, job: Job, *, pair: str = "", visitor: str = ""
    ) -> Generator[Update, None, None]:
        """Compute a job when its turn has come, and yield its updates, any `Waiting` first.

        A job that is stopped computes until its forward pass has ended; then the next one begins.
        At a pausable update a job gives way to those of a lower rank, and later goes on.

        pair     name of the models
        visitor  whose budget pays
        Raises InvalidInput if the budget is spent, the queue is full, or the job cannot run.
        """
        if ZERO and job.lent_seconds is None:
            raise InvalidInput(
                f"the GPU of this page is lent for at most {LENT_SECONDS:.0f} seconds at a time, "
                f"which is too short for a {job.kind}: run the page on your own machine with make "
                "run"
            )
        budget, name = self._budgets[job.charges], uuid.uuid4().hex
        if job.cost is not None:
            budget.admit(visitor, job.cost)
        with entry(job.kind, self.models.choice(pair).name, job.facts) as line:
            ticket = self._queue.join(job.rank)
            try:
                yield from self._wait(ticket, pair, name)
                models = self.models.loaded(pair)
                job = job.prepared(models)
                assert job.cost is not None, "a prepared job knows its cost"
                budget.admit(visitor, job.cost)  # other jobs of this visitor may have run meanwhile
                line.begin()
                seconds = 0.9 * (job.lent_seconds or 0) if ZERO else job.seconds(self.limits)
                turn = Turn(name, seconds)
                try:
                    with closing(self._carried_out(pair, job, turn)) as updates:
                        for update in updates:
                            line.count(update)
                            yield from self._give_way(ticket, update, turn)
                            line.paused = turn.paused
                finally:
                    budget.spend(visitor, getattr(line, job.charges))
                    if self._queue.computes(ticket):
                        models.reset()
            finally:
                self._queue.leave(ticket)

    def _give_way(self, ticket: Ticket, update: Update, turn: Turn) -> Iterator[Update]:
        """Yield an update, and let jobs compute that come first; on a lent GPU the time runs on."""
        if update.rank is not None:
            # Whoever takes the update may never ask for more, so the queue must not wait for that.
            self._queue.leave(ticket)
            yield update
            if ZERO:
                return
            self._queue.rejoin(ticket, update.rank)
        else:
            yield update
            if ZERO or not update.pausable or not self._queue.urged(ticket):
                return
            self._queue.give_way(ticket)
        began = time.monotonic()
        yield from self._turn(ticket, turn.name)
        turn.pauses += 1
        turn.paused += time.monotonic() - began

    def _compute(self, pair: str, job: Job, turn: Turn) -> Generator[Update, None, None]:
        """Compute a prepared job, on a lent GPU in a worker process."""
        yield from job.updates(self.models.loaded(pair), turn)

    def _wait(self, ticket: Ticket, pair: str, name: str) -> Iterator[Waiting]:
        """Wait for the first models, then for the turn, then for the job's models."""
        while not self.models.ready:
            yield Waiting(name, LOADING)
            time.sleep(STATUS_INTERVAL)
        yield from self._turn(ticket, name)
        loading = self.models.ask(pair)
        while not loading.done():
            yield Waiting(name, LOADING)
            time.sleep(STATUS_INTERVAL)
        loading.result()

    def _turn(self, ticket: Ticket, name: str) -> Iterator[Waiting]:
        """Wait for the turn, and name the place in the queue."""
        while ahead := self._queue.before(ticket):
            status = "Waiting for another run to end …"
            if ahead != 1:
                status = f"Waiting for a turn: {ahead} runs come first …"
            yield Waiting(name, status)
            self._queue.pause(STATUS_INTERVAL)


def _lent_seconds(pair: str, job: Job, turn: Turn) -> Any:
    """Return how long a worker may take; it has the same parameters as `Runner._compute`."""
    return job.lent_seconds
