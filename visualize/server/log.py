"""The log of jobs: one JSON line a job on the standard error, without any visitor's words."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ouroboros_core.errors import OuroborosError
from visualize.server.jobs import Update

log = logging.getLogger("ouroboros.runs")
STOPPED = "stopped"


class Entry:
    """The line of a job while it is collected."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts, self.tokens, self.steps = facts, 0, 0
        self._submitted = time.monotonic()
        self._begun: float | None = None
        self.paused = 0.0

    def begin(self) -> None:
        """Note that the job computes from now on; until now it waited."""
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the job began to compute, without its pauses."""
        return time.monotonic() - self._begun - self.paused if self._begun else 0.0

    def count(self, update: Update) -> None:
        """Take over counts and facts of an update."""
        self.tokens = max(self.tokens, update.tokens)
        self.steps = max(self.steps, update.steps)
        self.facts |= update.facts

    def line(self) -> str:
        now = time.monotonic()
        counts = {
            "tokens": self.tokens,
            "steps": self.steps,
            "waited_s": round((self._begun or now) - self._submitted, 2),
            "ran_s": round(self.seconds, 2),
        }
        return json.dumps(self.facts | counts)


@contextmanager
def entry(kind: str, pair: str, facts: Mapping[str, Any]) -> Iterator[Entry]:
    """Log a job when it ends, whichever way it ends."""
    names = {"id": uuid.uuid4().hex[:8], "kind": kind, "pair": pair, "ending": STOPPED}
    line = Entry({**names, **facts})
    try:
        yield line
        if line.facts["ending"] == STOPPED:
            line.facts["ending"] = "done"
    except GeneratorExit:
        raise
    except OuroborosError:
        line.facts["ending"] = "refused"
        raise
    except Exception as error:
        line.facts |= {"ending": "failed", "error": type(error).__name__}
        raise
    finally:
        log.info(line.line())
