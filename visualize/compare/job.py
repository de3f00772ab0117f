"""A comparison as a job: the lanes of a plan run one after another, each beside plain decoding."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ouroboros_core.benchmark.protocol import order
from ouroboros_core.errors import InvalidInput
from visualize.compare.comparison import PLAIN, Plan, Unit
from visualize.run import live
from visualize.server.jobs import Job, Turn, Update
from visualize.server.queue import Rank
from visualize.server.zero_gpu import seconds_for

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.trace import Trace

WARM_UP_TOKENS = 8
PAUSE = 0.1
"""Seconds after a run, while no clock runs: a browser on the same machine draws it."""


@dataclass(frozen=True, kw_only=True)
class CompareUpdate(Update):
    """Base of the updates of a comparison. `left`: estimated seconds of the runs that are left."""

    left: float


@dataclass(frozen=True, kw_only=True)
class CompareStarted(CompareUpdate):
    """`where`: models and machine. `refused`: by lane, why it cannot run."""

    where: str
    refused: dict[int, str]


@dataclass(frozen=True, kw_only=True)
class Running(CompareUpdate):
    """A lane runs now."""

    pausable = True
    lane: int


@dataclass(frozen=True, kw_only=True)
class Ran(CompareUpdate):
    """A run has ended. `difference`: where its text differs from plain decoding's."""

    unit: Unit
    trace: Trace
    difference: Divergence | None


class Pace:
    """Estimates the seconds that are left. A run takes the mean of its lane's runs so far; before
    the first of them the mean of all runs, and before any run the guess."""

    def __init__(self, guess: float, lanes: Sequence[int], runs: int) -> None:
        """runs: of each lane"""
        self._guess = guess
        self._left = dict.fromkeys(lanes, runs)
        self._took: dict[int, list[float]] = {lane: [] for lane in lanes}

    def ran(self, lane: int, seconds: float) -> None:
        """Note a run."""
        self._left[lane] -= 1
        self._took[lane].append(seconds)

    @property
    def left(self) -> float:
        every = [seconds for took in self._took.values() for seconds in took]
        other = _mean(every) if every else self._guess
        return sum(
            count * (_mean(self._took[lane]) if self._took[lane] else other)
            for lane, count in self._left.items()
        )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


@dataclass(frozen=True)
class CompareJob(Job):
    """Run all lanes of a plan on all prompts, round by round.

    Lanes that cannot run are left out; raises InvalidInput if no other is left. A job that takes
    longer than it may ends early.

    guess  seconds of a run, by the costs of the target's passes

    It gives way to any other run; a run that is disturbed is repeated.

    Updates: one CompareStarted; then for each run one Running, some Comparing, and one Ran.
    """

    kind = "comparison"
    charges = "seconds"
    rank = Rank.SERIES
    plan: Plan
    guess: float | None = None

    @property
    def cost(self) -> float | None:
        return None if self.guess is None else self.guess * self._runs

    @property
    def _runs(self) -> int:
        return self.plan.rounds * len(self.plan.prompts) * len(self.plan.names)

    @property
    def lent_seconds(self) -> float:
        return seconds_for(self._runs * self.plan.tokens)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "method": self.plan.grid.method,
            "grid": [str(axis) for axis in self.plan.grid.axes],
        }

    def prepared(self, pair: Pair) -> Self:
        costs = pair.costs.target
        lengths = [len(pair.encode(prompt, chat=self.plan.chat)) for prompt in self.plan.prompts]
        reading = _mean([costs.of(length) for length in lengths])
        return replace(self, guess=reading + self.plan.tokens * costs.of(1))

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        from ouroboros_core.decoding.generation import Generation

        assert self.guess is not None, "the job is prepared"
        plan, refused = self.plan, self._refused(pair)
        lanes = [lane for lane in range(len(plan.names)) if lane not in refused]
        pace = Pace(self.guess, lanes, plan.rounds * len(plan.prompts))
        where = f"{pair.target.name}, on {pair.environment.where}"
        yield CompareStarted(where=where, refused=refused, left=pace.left)
        plain: dict[int, Trace] = {}
        spent, tokens, warm = 0.0, 0, set[int]()
        for number, prompt, lane in self._units(lanes):
            if spent > turn.seconds:
                return
            yield Running(lane=lane, left=pace.left)
            task = plan.task(lane, plan.prompts[prompt])
            start = turn.clock()
            if lane not in warm:  # first calls are not timed
                warm.add(lane)
                few = replace(task, max_new_tokens=min(WARM_UP_TOKENS, task.max_new_tokens))
                yield from live.silently(partial(Generation, pair, few), turn)
            trace = yield from live.silently(partial(Generation, pair, task), turn)
            plain |= {prompt: trace} if lane == PLAIN else {}
            difference = None
            if lane != PLAIN and number == 0 and prompt in plain:
                run = Generation(pair, task)
                difference = live.difference_from_plain(run, trace, plain[prompt])
            took = turn.clock() - start
            spent += took
            tokens += len(trace.tokens)
            pace.ran(lane, took)
            unit = number, prompt, lane
            yield Ran(unit=unit, trace=trace, difference=difference, left=pace.left, tokens=tokens)
            time.sleep(PAUSE)

    def _units(self, lanes: Sequence[int]) -> Generator[Unit, None, None]:
        """Yield all runs in their order. In the first round plain decoding comes first, so that
        each run beside it has a speedup; later rounds begin with other lanes."""
        for number in range(self.plan.rounds):
            for prompt in range(len(self.plan.prompts)):
                for position in order(len(lanes), number):
                    yield number, prompt, lanes[position]

    def _refused(self, pair: Pair) -> dict[int, str]:
        """Return why lanes cannot run; raises InvalidInput if plain decoding cannot, or no other
        lane."""
        from ouroboros_core.decoding.generation import Generation

        refused: dict[int, str] = {}
        for lane in range(len(self.plan.names)):
            try:
                for prompt in self.plan.prompts:
                    Generation(pair, self.plan.task(lane, prompt))
            except InvalidInput as error:
                if lane == PLAIN:
                    raise
                refused[lane] = str(error)
        if len(refused) == len(self.plan.names) - 1:
            raise InvalidInput(refused[1])
        return refused
