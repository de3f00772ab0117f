"""One line a run, as JSON on the standard error: what was run and how it ended, and nothing that a
visitor wrote."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ouroboros_core.errors import OuroborosError
from visualize.server.updates import (
    Counted,
    Finished,
    LaneFinished,
    Played,
    Progress,
    Started,
    SweepProgress,
    SweepStarted,
    Update,
    Written,
)

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task

log = logging.getLogger("ouroboros.runs")


class Entry:
    """What becomes a line when the run is over."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts, self.tokens, self.steps = facts, 0, 0
        self._asked = time.monotonic()
        self._begun: float | None = None

    def begin(self) -> None:
        """It computes now; until now it waited."""
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began to compute."""
        return time.monotonic() - self._begun if self._begun else 0.0

    def count(self, update: Update) -> None:
        """Count what an update brings."""
        match update:
            case Started(trace=trace):
                self.facts["prompt_tokens"] = len(trace.prompt.tokens)
            case Progress(steps=steps, texts=texts):
                self._add(len(texts), len(steps))
            case Written(trace=trace):
                self.tokens, self.steps = len(trace.tokens), len(trace.steps)
            case Finished(trace=trace):
                self.tokens, self.steps = len(trace.tokens), len(trace.steps)
                self.facts["ending"] = trace.ending
            case LaneFinished(trace=trace):
                self._add(len(trace.tokens), len(trace.steps))
            case Counted(tally=tally, passes=passes):
                self.tokens = passes + (tally.tokens if tally else 0)
                self.steps = passes + (tally.steps if tally else 0)
            case Played(round=played):
                self._add(played.rows, len(played.guesses))
            case SweepStarted(sweep=sweep):
                self.facts["method"] = sweep.grid.method
            case SweepProgress(done=(_, trace, _)):
                self._add(len(trace.tokens), 0)

    def _add(self, tokens: int, steps: int) -> None:
        self.tokens, self.steps = self.tokens + tokens, self.steps + steps

    def line(self) -> str:
        now = time.monotonic()
        counts = {
            "tokens": self.tokens,
            "steps": self.steps,
            "waited_s": round((self._begun or now) - self._asked, 2),
            "ran_s": round(self.seconds, 2),
        }
        return json.dumps(self.facts | counts)


@contextmanager
def entry(
    kind: str, *, pair: str, task: Task | None = None, methods: list[str] | None = None
) -> Iterator[Entry]:
    """Around a run: its line is written however it ends."""
    facts: dict[str, Any] = {
        "id": uuid.uuid4().hex[:8],
        "kind": kind,
        "pair": pair,
        "ending": "stopped",
    }
    if task is not None:
        facts |= {
            "method": task.method,
            "knobs": task.hyperparameters.model_dump(),
            "max_new_tokens": task.max_new_tokens,
        }
        facts |= {"temperature": task.sampling.temperature, "chat": task.chat}
    if methods is not None:
        facts["methods"] = methods
    mine = Entry(facts)
    try:
        yield mine
    except GeneratorExit:
        raise
    except OuroborosError:
        mine.facts["ending"] = "refused"
        raise
    except Exception as error:
        mine.facts |= {"ending": "failed", "error": type(error).__name__}
        raise
    finally:
        log.info(mine.line())
