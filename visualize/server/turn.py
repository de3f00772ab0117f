"""A turn to compute: a budget, a turn in the queue, the models, and a line in the log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from visualize.server.limits import Budget
from visualize.server.log import Entry, entry
from visualize.server.models import Models
from visualize.server.queue import RunQueue
from visualize.server.showing import STATUS_INTERVAL
from visualize.server.updates import Update, Waiting

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

U = TypeVar("U", bound=Update)
LOADING = "Waiting for the models to load …"


@dataclass(frozen=True)
class Account:
    """A budget, and what of a run is charged to it."""

    budget: Budget
    cost: Callable[[Entry], float]


class Turns:
    """One computes at a time; the others wait in the order in which they came."""

    def __init__(self, models: Models, waiting: int) -> None:
        """waiting: how many may wait while one computes."""
        self.models, self.queue = models, RunQueue(waiting)

    @contextmanager
    def take(
        self,
        kind: str,
        account: Account,
        *,
        pair: str,
        visitor: str,
        wanted: float | None = None,
        **facts: Any,
    ) -> Iterator[Turn]:
        """Admit the request, hand out a turn, and clean up after it, however it ends.

        kind, facts  what the log says of it, see `entry`
        wanted       None if only `Turn.begin` knows it
        Raises InvalidInput if the budget is spent.
        """
        if wanted is not None:
            account.budget.admit(visitor, wanted)
        with entry(kind, pair=self.models.choice(pair).name, **facts) as log:
            turn = Turn(self, account, pair, visitor, log)
            try:
                yield turn
            finally:
                turn._end()


class Turn:
    """First `wait`, then `begin`, then compute and tell `log` what is done.

    A run that was stopped computes until its pass has ended; only then does the next one begin.
    """

    def __init__(self, turns: Turns, account: Account, pair: str, visitor: str, log: Entry) -> None:
        self.name, self.log = uuid.uuid4().hex, log
        self._turns, self._account = turns, account
        self._pair, self._visitor = pair, visitor
        self._ticket: object | None = None
        self._began = False

    def wait(self) -> Iterator[Waiting]:
        """Join the queue, then wait for the turn and for the models, and say for which."""
        models, queue = self._turns.models, self._turns.queue
        self._ticket = ticket = queue.join()
        while not models.ready:
            yield Waiting(self.name, LOADING)
            time.sleep(STATUS_INTERVAL)
        while first := queue.before(ticket):
            waiting = (
                "Waiting for another run to end …"
                if first == 1
                else f"Waiting for a turn: {first} runs come first …"
            )
            yield Waiting(self.name, waiting)
            queue.pause(STATUS_INTERVAL)
        loading = models.ask(self._pair)
        while not loading.done():
            yield Waiting(self.name, LOADING)
            time.sleep(STATUS_INTERVAL)
        loading.result()

    @property
    def pair(self) -> Pair:
        """The models, once it has waited for them."""
        return self._turns.models.loaded(self._pair)

    def begin(self, wanted: float) -> None:
        """Admit once more, because others of the same visitor may have run meanwhile; the clock
        starts."""
        self._account.budget.admit(self._visitor, wanted)
        self.log.begin()
        self._began = True

    def follow(self, updates: Generator[U, None, None]) -> Generator[U, None, None]:
        """What it computes, counted for the log; closed with this generator."""
        with closing(updates):
            for update in updates:
                self.log.count(update)
                yield update

    def _end(self) -> None:
        try:
            if self._began:
                self._account.budget.spend(self._visitor, self._account.cost(self.log))
                self.pair.reset()
        finally:
            if self._ticket is not None:
                self._turns.queue.leave(self._ticket)
