"""Messages for unforeseen errors, which the log keeps under a number."""

from __future__ import annotations

import logging
import traceback
import uuid

log = logging.getLogger("ouroboros.faults")

MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
"""How torch says that memory ran out, on the CPU and elsewhere."""


def describe(error: Exception, memory: str = "") -> str:
    """Return the message for an unforeseen error, and log it.

    memory  the message if memory ran out
    """
    if isinstance(error, MemoryError) or any(phrase in str(error).lower() for phrase in MEMORY):
        log.error(
            "out of memory: %s", str(error).splitlines()[0] if str(error) else type(error).__name__
        )
        return memory or (
            "this run did not fit into the memory of this machine; it was given back. "
            "Shorten the prompt or ask for fewer tokens"
        )
    number = uuid.uuid4().hex[:8]
    # Frames only: the error's own words may quote a visitor's text.
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("fault %s, Traceback of a %s:\n%s", number, type(error).__name__, frames)
    return (
        f"something of ours went wrong ({type(error).__name__}); your next click works "
        f"as before. In the server's log it is fault {number}: please report it"
    )
