"""What the tabs share on the server: the models, one lane in which one run computes at a time, and
what is said of each run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding import metrics
from ouroboros_core.errors import InvalidInput
from ouroboros_core.words import say, several
from visualize.server.baselines import Baselines
from visualize.server.compute import STATUS_INTERVAL, Compute, Update
from visualize.server.lent import ZERO, lent
from visualize.server.limits import Budget, Limits
from visualize.server.log import entry
from visualize.server.models import Models
from visualize.server.queue import Lane

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Run, Sweep
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.phrase_pool import PhrasePool

LENT_SECONDS = 100.0
"""At most, on a GPU that is lent."""


class Studio:
    """Runs, races and sweeps of all visitors, one after another."""

    def __init__(self, models: Models, limits: Limits = Limits(), waiting: int = 1000) -> None:  # noqa: B008 - frozen
        """waiting: how many may wait while one computes."""
        self.models, self.limits = models, limits
        self.tokens, self.seconds = (
            Budget(limits.tokens, "tokens"),
            Budget(limits.sweep_seconds, "seconds"),
        )
        self._baselines = Baselines()
        self._lane = Lane(waiting)
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
        pool: Callable[[Pair], PhrasePool] | None = None,
        fresh: bool = False,
        *,
        pair: str = "",
        visitor: str = "",
    ) -> Generator[Update, None, None]:
        """Run a task and then, unless already measured, plain decoding; yields what is new.

        Each update may have a `view` for the token view and `charts` that changed. The first of the
        run has `begun`, its trace without steps, later ones `grown`, what there is more, and the
        last `trace`, `baseline`, `difference` and `pool`. While models load or another run
        computes, the updates only say so.

        pool     gives the phrases of the visitor's earlier runs, for a warm start; those in the
                 last update have learned more
        fresh    whether plain decoding is measured anew, even where it was already
        pair     the models' name; visitor: whose budget it is
        Raises InvalidInput for what cannot run, before anything does.
        """
        self.tokens.admit(visitor, task.max_new_tokens)
        name = uuid.uuid4().hex
        waiting = {
            "seq": 0,
            "run": f"{name} waits",
            "from": 0,
            "steps": [],
            "badge": say("view.waiting"),
            "tiles": [],
        }
        with (
            entry("run", pair=self.models.choice(pair).name, task=task) as log,
            self._turn() as turn,
        ):
            for status in turn(pair):
                yield {"view": {**waiting, "status": status}}
            self.tokens.admit(
                visitor, task.max_new_tokens
            )  # meanwhile others of the same visitor may have run
            here = self.models.loaded(pair)
            log.begin()
            key = Baselines.key(here, task, visitor)
            known = self._baselines.get(key) if compare and not fresh else None
            try:
                learned = pool(here) if pool else None
                with closing(
                    self._compute(pair, task, name, compare, charts, learned, known)
                ) as updates:
                    for update in updates:
                        log.grow(update)
                        yield update
                        self._keep(key, update, known)
            finally:
                self.tokens.spend(visitor, log.tokens)
                here.reset()

    def _keep(self, key: str, update: Update, known: Trace | None) -> None:
        """Remember a plain run that is new, unless it was measured while the machine was busy."""
        baseline = update.get("baseline")
        if baseline not in (None, known) and metrics.busy(update["trace"], baseline) is None:
            self._baselines.put(key, baseline)

    def race(
        self, tasks: Sequence[tuple[str, Task]], *, pair: str = "", visitor: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Run named tasks in turn, the first of them plain decoding; yields what the race view
        shows, lane by lane."""
        self.tokens.admit(visitor, sum(task.max_new_tokens for _, task in tasks))
        name = uuid.uuid4().hex
        waiting = {"race": name, "lanes": [], "badge": say("view.waiting"), "done": False}
        ids = [task.method for _, task in tasks]
        with (
            entry("race", pair=self.models.choice(pair).name, methods=ids) as log,
            self._turn() as turn,
        ):
            for seq, status in enumerate(turn(pair)):
                yield {**waiting, "seq": seq, "status": status}
            self.tokens.admit(visitor, sum(task.max_new_tokens for _, task in tasks))
            here = self.models.loaded(pair)
            log.begin()
            try:
                with closing(self._race(pair, tasks, name)) as updates:
                    for update in updates:
                        log.grow(update)
                        yield update["view"]
            finally:
                self.tokens.spend(visitor, log.tokens)
                here.reset()

    def sweep(
        self, make: Callable[[Pair], Sweep], *, pair: str = "", visitor: str = ""
    ) -> Iterator[tuple[str, Sweep | None, Run | None]]:
        """Make a sweep and do what is left of it; yields what is measured now, the sweep, and a run
        that has just ended."""
        if ZERO:
            raise InvalidInput(say("sweep.lent"))
        with entry("sweep", pair=self.models.choice(pair).name) as log, self._turn() as turn:
            for status in turn(pair):
                yield status, None, None
            here = self.models.loaded(pair)
            sweep, said, due = make(here), [""], 0.0
            self.seconds.admit(visitor, sweep.seconds_left)
            log.begin()
            log.facts["method"] = sweep.grid.method
            began = time.monotonic()
            try:
                yield "", sweep, None
                for done in sweep.ticks(lambda what: said.__setitem__(0, what)):
                    now = time.monotonic()
                    if done is not None or now >= due:
                        due = now + STATUS_INTERVAL
                        log.tokens += len(done[1].tokens) if done else 0
                        yield said[0], sweep, done
                log.facts["ending"] = "done"
            finally:
                self.seconds.spend(visitor, time.monotonic() - began)
                here.reset()

    @contextmanager
    def _turn(self) -> Iterator[Callable[[str], Iterator[str]]]:
        """A turn on the one compute lane: what is given waits for it and for the models, saying
        what it waits for.

        Neither knows of a run that was stopped until its pass has ended; only then its place is
        free.
        """
        tickets: list[object] = []

        def wait(pair: str) -> Iterator[str]:
            tickets.append(self._lane.join())
            while not self.models.ready:
                yield say("generate.loading")
                time.sleep(STATUS_INTERVAL)
            while first := self._lane.before(tickets[0]):
                yield several("generate.turn", first)
                self._lane.pause(STATUS_INTERVAL)
            wanted = self.models.ask(pair)
            while not wanted.done():
                yield say("generate.loading")
                time.sleep(STATUS_INTERVAL)
            wanted.result()

        try:
            yield wait
        finally:
            for ticket in tickets:
                self._lane.leave(ticket)


def _lent_seconds(tasks: Sequence[Task]) -> float:
    """How long these may take on a GPU that is lent: 0.1 s a token is slow there."""
    return min(LENT_SECONDS, 15 + 0.1 * sum(task.max_new_tokens for task in tasks))
