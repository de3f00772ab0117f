"""The log without any visitor's words: a JSON line a job, and unforeseen errors by number."""

from __future__ import annotations

import json
import logging
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ouroboros_core.errors import OuroborosError
from visualize.server.jobs import Update

log, faults = logging.getLogger("ouroboros.runs"), logging.getLogger("ouroboros.faults")
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


MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
"""How torch says that memory ran out, on the CPU and elsewhere."""


def describe(error: Exception, memory: str = "") -> str:
    """Return the message for an unforeseen error, and log it.

    memory  the message if memory ran out
    """
    if isinstance(error, MemoryError) or any(phrase in str(error).lower() for phrase in MEMORY):
        faults.error(
            "out of memory: %s", str(error).splitlines()[0] if str(error) else type(error).__name__
        )
        return memory or (
            "this run did not fit into the memory of this machine; it was given back. "
            "Shorten the prompt or ask for fewer tokens"
        )
    number = uuid.uuid4().hex[:8]
    # Frames only: the error's own words may quote a visitor's text.
    frames = "".join(traceback.format_tb(error.__traceback__))
    faults.error("fault %s, Traceback of a %s:\n%s", number, type(error).__name__, frames)
    return (
        f"something of ours went wrong ({type(error).__name__}); your next click works "
        f"as before. In the server's log it is fault {number}: please report it"
    )
