"""The proof: texts that are drawn with many seeds, counted against the target's own
probabilities."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from visualize.proof import tally as proof
from visualize.server.updates import Counted

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from visualize.proof.likely_texts import Text

COUNT_INTERVAL = 1 / 4


def searching(
    search: Generator[int, None, dict[Text, float]], name: str, until: float
) -> Generator[Counted, None, tuple[dict[Text, float] | None, int]]:
    """What a search finds, None if the time is over before it ends, and its passes; says a few
    times a second how many there have been."""
    due, passes = 0.0, 0
    while time.monotonic() < until:
        try:
            passes = next(search)
        except StopIteration as end:
            return end.value, passes
        if time.monotonic() >= due:
            due = time.monotonic() + COUNT_INTERVAL
            said = f"The target's own probabilities: {passes} plain passes …"
            yield Counted(name, None, said, passes)
    return None, passes


class Counting:
    """Counts what is drawn with one seed after another."""

    def __init__(self, pair: Pair, chances: dict[Text, float], seeds: int) -> None:
        from ouroboros_core.decoding.text import decode_all

        self._pair, self._chances = pair, chances
        self._counts = dict.fromkeys(chances, 0)
        texts = tuple(decode_all(pair.tokenizer, text) for text in chances)
        blank = tuple(self._counts.values())
        self._tally = proof.Tally(texts, tuple(chances.values()), blank, 0, seeds)

    def run(
        self, task: Task, length: int, name: str, until: float
    ) -> Generator[Counted, None, None]:
        """An update a few times a second, and one at the end."""
        first, due = task.sampling.seed, 0.0
        for seed in range(first, first + self._tally.seeds):
            self._draw(task, seed, length)
            now = time.monotonic()
            if now >= until and not self._tally.done:
                self._tally = replace(self._tally, late=True)
            if now >= due or self._tally.done:
                due = now + COUNT_INTERVAL
                yield Counted(name, self._tally, self._status())
            if self._tally.done:
                return

    def _draw(self, task: Task, seed: int, length: int) -> None:
        from visualize.proof.likely_texts import beginning

        text, steps = beginning(self._pair, task, seed, length)
        seen, old = text in self._counts, self._tally
        if seen:
            self._counts[text] += 1
        self._tally = replace(
            old,
            counts=tuple(self._counts.values()),
            other=old.other + (not seen),
            tokens=old.tokens + sum(len(step.tokens) for step in steps),
            steps=old.steps + len(steps),
            proposed=old.proposed + sum(len(step.tree) - 1 for step in steps),
            accepted=old.accepted + sum(len(step.path) for step in steps),
        )

    def _status(self) -> str:
        tally = self._tally
        if tally.late:
            return f"The time was over after {tally.drawn} of {tally.seeds} seeds."
        return "Done." if tally.done else f"Seed {tally.drawn} of {tally.seeds} …"
