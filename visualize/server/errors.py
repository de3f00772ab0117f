"""Turns errors of an event into a sentence on the page; errors of the program are logged with a
number."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import gradio as gr

from ouroboros_core.errors import InvalidInput, OuroborosError

log = logging.getLogger("ouroboros.faults")

MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
"""How torch says it, on the CPU and elsewhere."""


@contextmanager
def errors_on_page() -> Iterator[None]:
    """Wraps everything that an event does, including the loop of a generator."""
    try:
        yield
    except OuroborosError as error:
        raise gr.Error(str(error), print_exception=False) from None
    except gr.Error:
        raise
    except Exception as error:
        raise gr.Error(describe(error), print_exception=False) from None


T = TypeVar("T")


def sent(event: gr.EventData, name: str) -> Any:
    """What an event carries under a name, None for nothing."""
    return event._data.get(name) if isinstance(event._data, dict) else None


def field(event: gr.EventData, name: str, kind: type[T]) -> T:
    """What an event of the page's own scripts carries under a name; raises InvalidInput if it is
    missing or no such thing."""
    value = sent(event, name)
    if not isinstance(value, kind):
        raise InvalidInput(f"the page sent no {name}: reload it")
    return value


def describe(error: Exception, memory: str = "") -> str:
    """The message for an unforeseen error; `memory`: the message if memory ran out."""
    if isinstance(error, MemoryError) or any(part in str(error).lower() for part in MEMORY):
        log.error(
            "out of memory: %s", str(error).splitlines()[0] if str(error) else type(error).__name__
        )
        return memory or (
            "this run did not fit into the memory of this machine; it was given back. "
            "Shorten the prompt or ask for fewer tokens"
        )
    number = uuid.uuid4().hex[:8]
    frames = "".join(
        traceback.format_tb(error.__traceback__)
    )  # and not what it says: that may hold a visitor's text
    log.error("fault %s, Traceback of a %s:\n%s", number, type(error).__name__, frames)
    return (
        f"something of ours went wrong ({type(error).__name__}); your next click works "
        f"as before. In the server's log it is fault {number}: please report it"
    )
