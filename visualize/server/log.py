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

    def grow(self, update: dict[str, Any]) -> None:
        """Count what an update brings."""
        if "begun" in update:
            self.facts["prompt_tokens"] = len(update["begun"].prompt.tokens)
        steps, texts, _ = update.get("grown", ((), (), ()))
        self.steps, self.tokens = self.steps + len(steps), self.tokens + len(texts)
        trace = update.get("trace")
        if trace is not None:
            lanes = "prompt_tokens" not in self.facts  # of a race, whose updates bring whole runs
            self.tokens = self.tokens + len(trace.tokens) if lanes else len(trace.tokens)
            self.steps = self.steps + len(trace.steps) if lanes else len(trace.steps)
            self.facts["ending"] = "done" if lanes else trace.ending

    def line(self) -> str:
        now = time.monotonic()
        waited = (self._begun or now) - self._asked
        ran = now - self._begun if self._begun else 0.0
        counts = {
            "tokens": self.tokens,
            "steps": self.steps,
            "waited_s": round(waited, 2),
            "ran_s": round(ran, 2),
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
