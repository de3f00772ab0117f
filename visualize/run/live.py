"""Parts of runs while they compute: pace, time, silent runs and their comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.trace.equality import Divergence, divergence
from ouroboros_core.trace.trace import Trace
from visualize.run import view as views
from visualize.server.jobs import Job, Turn, Update
from visualize.server.zero_gpu import seconds_for

Charts = dict[str, Any]
"""Figures by the id of their chart: those that changed."""
TEXT_INTERVAL = 1 / 16
"""Seconds from one update of the text to the next, at least."""
TEXT_PAUSE = 0.02
"""Seconds after an update, outside all clocks, to send and draw it."""


PAUSABLE_INTERVAL = 1 / 4
"""Seconds of a silent run from one update to the next: another visitor waits so long at most."""


@dataclass(frozen=True)
class Comparing(Update):
    """A silent run continues. Nothing is new; the job can be stopped or paused here."""

    pausable = True


class TimedJob(Job):
    """A job that times its tasks in rounds."""

    @property
    def tasks(self) -> Sequence[Task]:
        raise NotImplementedError

    @property
    def rounds(self) -> int:
        return ROUNDS

    @property
    def lent_seconds(self) -> float:
        tokens = sum(task.max_new_tokens for task in self.tasks)
        return seconds_for(max(1, self.rounds) * tokens)


def paced(generation: Generation, interval: float = TEXT_INTERVAL) -> Iterator[None]:
    """Generate; yield after a step, at most once per `interval` seconds."""
    due = 0.0
    for _ in generation:
        now = time.monotonic()
        if now >= due:
            due = now + interval
            yield


def undisturbed(
    make: Callable[[], Generation], pauses: Callable[[], int]
) -> Generator[None, None, Trace]:
    """Run a generation; begin again if others have computed between two of its steps, because they
    evict its KV cache.

    pauses: returns how often others have computed so far
    """
    while True:
        before, generation = pauses(), make()
        for _ in generation:
            if pauses() != before:
                break
            yield
        else:
            return generation.trace()


def silently(make: Callable[[], Generation], turn: Turn) -> Generator[Comparing, None, Trace]:
    """Generate without showing, and return the trace. A generator, so that Stop reaches it."""
    steps, due = undisturbed(make, lambda: turn.pauses), 0.0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            trace: Trace = ended.value
            return trace
        if time.monotonic() >= due:
            yield Comparing()
            due = time.monotonic() + PAUSABLE_INTERVAL


def steps_from(generation: Generation, start: int) -> list[dict[str, Any]]:
    return views.steps_view(
        generation.steps, generation.texts, generation.task.sampling, generation.piece, start
    )


def difference_from_plain(
    generation: Generation, trace: Trace, baseline: Trace
) -> Divergence | None:
    """Return the first difference from plain decoding, None if there is or may be none."""
    return divergence(generation.target, trace, baseline) if generation.repeats_plain_text else None
