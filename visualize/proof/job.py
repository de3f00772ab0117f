"""A proof as a job: texts drawn with many seeds, counted against the target's own probabilities."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.text import decode_all
from visualize.proof.chi_square import LEAST
from visualize.proof.tally import Tally
from visualize.server.jobs import Job, Turn, Update
from visualize.server.queue import Rank
from visualize.server.zero_gpu import LENT_SECONDS

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from visualize.proof.likely_texts import Text

COUNT_INTERVAL = 1 / 4
"""Seconds between two updates."""


@dataclass(frozen=True)
class Counted(Update):
    """The counts so far; no tally while the target's probabilities are computed."""

    pausable = True
    name: str
    tally: Tally | None
    status: str


@dataclass(frozen=True)
class ProofJob(Job):
    """Draw the first `length` tokens of a task with `seeds` seeds, its own and those after it.

    Updates: Counted; the last one has all counts. It ends early when its time is over.
    """

    kind = "proof"
    rank = Rank.SERIES
    lent_seconds = LENT_SECONDS
    task: Task
    seeds: int
    length: int

    @property
    def cost(self) -> float:
        return self.seeds * self.task.max_new_tokens

    @property
    def facts(self) -> dict[str, Any]:
        return {"methods": [self.task.method]}

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        from visualize.proof.likely_texts import likely_texts

        name, until = turn.name, turn.clock() + turn.seconds
        generation = Generation(pair, self.task)  # raises before anything is computed
        yield Counted(name, None, "Computing the target's own probabilities …")
        search = likely_texts(
            generation.target,
            generation.prompt.tokens,
            self.task.sampling,
            self.length,
            LEAST / self.seeds,
            generation.stop_tokens,
        )
        probabilities, passes = yield from searching(search, turn, until)
        if probabilities is None:
            tally = Tally((), (), (), 0, self.seeds, late=True)
            status = f"The time was over before a seed was drawn. Plain passes so far: {passes}."
            yield Counted(name, tally, status, tokens=passes, steps=passes)
            return
        counting = Counting(pair, probabilities, self.seeds)
        for tally, status in counting.run(self.task, self.length, turn, until):
            tokens, steps = passes + tally.tokens, passes + tally.steps
            yield Counted(name, tally, status, tokens=tokens, steps=steps)


def searching(
    search: Generator[int, None, dict[Text, float]], turn: Turn, until: float
) -> Generator[Counted, None, tuple[dict[Text, float] | None, int]]:
    """Advance a search, and say a few times a second how many passes there have been.

    Returns its result, None if the time is over first, and the number of passes.
    """
    due, passes = 0.0, 0
    while turn.clock() < until:
        try:
            passes = next(search)
        except StopIteration as end:
            return end.value, passes
        if turn.clock() >= due:
            due = turn.clock() + COUNT_INTERVAL
            status = f"The target's own probabilities: {passes} plain passes …"
            yield Counted(turn.name, None, status, tokens=passes, steps=passes)
    return None, passes


class Counting:
    """Counts the texts drawn with one seed after another."""

    def __init__(self, pair: Pair, probabilities: dict[Text, float], seeds: int) -> None:
        self._pair = pair
        self._counts = dict.fromkeys(probabilities, 0)
        texts = tuple(decode_all(pair.tokenizer, text) for text in probabilities)
        zeros = tuple(self._counts.values())
        self._tally = Tally(texts, tuple(probabilities.values()), zeros, 0, seeds)

    def run(
        self, task: Task, length: int, turn: Turn, until: float
    ) -> Generator[tuple[Tally, str], None, None]:
        """Yield the tally and a status a few times a second, and at the end."""
        first, due = task.sampling.seed, 0.0
        for seed in range(first, first + self._tally.seeds):
            self._draw(task, seed, length)
            now = turn.clock()
            if now >= until and not self._tally.done:
                self._tally = replace(self._tally, late=True)
            if now >= due or self._tally.done:
                due = now + COUNT_INTERVAL
                yield self._tally, self._status()
            if self._tally.done:
                return

    def _draw(self, task: Task, seed: int, length: int) -> None:
        from visualize.proof.likely_texts import beginning

        text, steps = beginning(self._pair, task, seed, length)
        is_likely, tally = text in self._counts, self._tally
        if is_likely:
            self._counts[text] += 1
        self._tally = replace(
            tally,
            counts=tuple(self._counts.values()),
            other=tally.other + (not is_likely),
            tokens=tally.tokens + sum(len(step.tokens) for step in steps),
            steps=tally.steps + len(steps),
            proposed=tally.proposed + sum(len(step.tree) - 1 for step in steps),
            accepted=tally.accepted + sum(len(step.path) for step in steps),
        )

    def _status(self) -> str:
        tally = self._tally
        if tally.late:
            return f"The time was over after {tally.drawn} of {tally.seeds} seeds."
        return "Done." if tally.done else f"Seed {tally.drawn} of {tally.seeds} …"
