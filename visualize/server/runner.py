"""Runs, races, sweeps, proofs and games of all visitors, one after another: what is asked for is
checked, it waits for its turn and for the models, then it computes, within a visitor's budget and
with a line in the log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from visualize.draft_game import game as play
from visualize.race.job import STATUS_INTERVAL
from visualize.server.compute import Compute
from visualize.server.limits import Budget, Limits, flag, whole
from visualize.server.log import Entry, entry
from visualize.server.models import Models, import_core
from visualize.server.queue import RunQueue
from visualize.server.updates import (
    PlayUpdate,
    ProofUpdate,
    RaceUpdate,
    RunUpdate,
    SweepProgress,
    SweepStarted,
    SweepUpdate,
    Update,
    Waiting,
)
from visualize.server.zero_gpu import ZERO, lent

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory
    from ouroboros_core.sweeps.sweep import Sweep

U = TypeVar("U", bound=Update)
LOADING = "Waiting for the models to load …"
LONGEST_PREDICTION = 100_000
"""In characters."""
LENT_SECONDS = 100.0
"""At most, on a GPU that is lent."""
ROUND_SECONDS = 20.0
"""There, of a round of "Be the draft"."""


def make_task(
    prompt: str,
    method: str,
    settings: dict[str, Any],
    chat: bool,
    count: Any,
    sampling: dict[str, Any],
    prediction: str = "",
    record: bool = False,
    most: int = Limits.new_tokens,
    generation_config: bool = True,
) -> Task:
    """What is asked for, checked; raises InvalidInput. most: tokens of an answer."""
    import_core()
    from ouroboros_core.decoding.generation import Task

    if not isinstance(prompt, str) or not prompt:
        raise InvalidInput(
            "the prompt is empty; write at least one character, or choose an example"
        )
    if not isinstance(prediction, str) or len(prediction) > LONGEST_PREDICTION:
        text = isinstance(prediction, str)
        what = f"{len(prediction)} characters" if text else f"a {type(prediction).__name__}"
        raise InvalidInput(
            f"prediction must be a text of at most {LONGEST_PREDICTION} characters, got {what}"
        )
    kind = methods.get(method)
    chosen = Sampling.parse(sampling)
    more: dict[str, Any] = {
        "chat": flag("chat", chat),
        "prediction": prediction,
        "record": flag("record", record),
        "generation_config": flag("generation_config", generation_config),
    }
    return Task(
        prompt,
        method,
        kind.Hyperparameters.parse(settings),
        chosen,
        whole("max_new_tokens", count, most),
        **more,
    )


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
        self._compute = Compute(models)
        if ZERO:
            _lend(self._compute)

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
                self._compute.run(pair, task, turn.name, charts, learned, rounds, seconds)
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
            yield from turn.follow(self._compute.race(pair, tasks, turn.name, seconds))
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
            yield from turn.follow(self._compute.play(pair, beginning, context, typed))
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
            yield from turn.follow(
                self._compute.prove(pair, task, seeds, length, seconds, turn.name)
            )
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


def _lend(compute: Compute) -> None:
    """Have what it computes done where the GPU is that is lent. All that it can compute stands
    here, with how long it may take; what is left out would run in the process that serves."""
    most: dict[str, Callable[..., float]] = {
        "run": lambda pair, task, name, charts, memory, rounds, seconds: _lent_seconds(
            [task, task], rounds
        ),
        "race": lambda pair, tasks, name, seconds: _lent_seconds(
            [task for _, task in tasks], ROUNDS
        ),
        "prove": lambda *_: LENT_SECONDS,
        "play": lambda *_: ROUND_SECONDS,
    }
    for name, seconds in most.items():
        setattr(compute, name, lent(getattr(compute, name), seconds))


def _lent_seconds(tasks: Sequence[Task], rounds: int) -> float:
    """How long so many rounds of these, at least one, may take on a GPU that is lent: 0.1 s a token
    is slow there."""
    tokens = max(1, rounds) * sum(task.max_new_tokens for task in tasks)
    return min(LENT_SECONDS, 15 + 0.1 * tokens)
