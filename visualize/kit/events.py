"""Gradio's events of this page: options, contents and errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import gradio as gr

from ouroboros_core.errors import InvalidInput, OuroborosError
from visualize.server.log import describe

T = TypeVar("T")

PRIVATE: Final[dict[str, Any]] = {
    "api_visibility": "private",
    "show_progress": "hidden",
    "show_progress_on": [],
}
"""Options of every event of the page: no endpoint, and no overlay on the outputs.

`show_progress_on` names no component, so that the browser keeps no loading state. It would keep one
for each output of every event that has run, and with each update of a run look for all of them
among all components: 43 ms an update, on the processor that the run needs.
"""


def unchanged() -> Any:
    """Return the output that leaves a component as it is."""
    return gr.skip()


def pressable_from(starts: Sequence[Any], button: Any) -> None:
    """Let a button, such as Stop, be pressed from these events on.

    Call it before the events start anything: Gradio's script runs one handler after the other.
    """
    for start in starts:
        start(None, js=_pressable(True), outputs=button, **PRIVATE)


def pressable_until_the_end(running: Any, button: Any) -> None:
    """Disable a button when the event `running` has ended, whichever way."""
    at_the_end(running, _pressable(False), button)


def at_the_end(running: Any, script: str, outputs: Any = None) -> None:
    """Call a function in the browser when the event `running` has ended, whichever way."""
    for end in (running.then, running.failure):  # `then` does not follow errors
        end(None, js=script, outputs=outputs, **PRIVATE)


def _pressable(can: bool) -> str:
    """Return a function in the browser that enables or disables a button."""
    return f"() => ({{ __type__: 'update', interactive: {json.dumps(can)} }})"


def in_words(error: Exception) -> str:
    """Return an error as a sentence, for a view that shows it where the fault is."""
    return str(error) if isinstance(error, OuroborosError) else describe(error)


@contextmanager
def errors_on_page(*, toast: bool = True) -> Iterator[None]:
    """Show every error inside on the page, as a sentence. In a generator, wrap its loop.

    toast: show it as a message of Gradio; else the event's failure shows it
    """
    try:
        yield
    except gr.Error:
        raise
    except Exception as error:
        raise gr.Error(in_words(error), print_exception=False, visible=toast) from None


def refused(error: OuroborosError) -> dict[str, Any]:
    """Return a view's value that says at the click why nothing else happens."""
    return {"seq": time.time_ns(), "refused": str(error)}


def sent(event: gr.EventData, name: str) -> Any:
    """Return the value of an event under a name, or None."""
    return event._data.get(name) if isinstance(event._data, dict) else None


def field(event: gr.EventData, name: str, kind: type[T]) -> T:
    """Return the value of an event of the page's scripts under a name.

    Raises InvalidInput if it is missing or of another type.
    """
    value = sent(event, name)
    if not isinstance(value, kind):
        raise InvalidInput(f"the page sent no {name}: reload it")
    return value
