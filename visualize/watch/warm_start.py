"""The file of a method's memory of a visitor's runs, which `--memory` loads as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import read_memory
from ouroboros_core.messages import counted
from ouroboros_core.trace.file import MAX_BYTES
from visualize.kit.inputs import learns
from visualize.watch.session import Session

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair

NOTHING = (
    "There is nothing yet that this method has learned with these settings: switch warm start on, "
    "and generate."
)
RUNNING = "A run is under way, and learns: wait until it has ended."


def saved(session: Session, task: Task, pair: Pair) -> dict[str, Any]:
    """Return name, type and text of the file, and what to say of it; raises InvalidInput."""
    _check_idle(session, task)
    memory = session.memory(task, pair)
    if memory is None or not memory.runs:
        raise InvalidInput(NOTHING)
    return {
        "said": f"{memory.holds} after {counted(memory.runs, 'run')}",
        "name": f"{task.method}-memory.json",
        "type": "application/json",
        "text": memory.to_json(),
    }


def loaded(session: Session, task: Task, pair: Pair, text: str) -> str:
    """Hand the text of a file to the session, and return what to say; raises InvalidInput."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"the file has {len(text):,} characters, allowed are {MAX_BYTES:,}")
    memory = read_memory(text, pair.fingerprint)
    _check_idle(session, task)
    session.remember(task, pair, memory)
    runs = counted(memory.runs, "run")
    return f"{memory.holds} after {runs}. The next run begins with it."


def _check_idle(session: Session, task: Task) -> None:
    """Raise InvalidInput if a run learns now, or the method never does."""
    if not learns(task.method):
        raise InvalidInput(f"{task.method} keeps nothing from run to run: choose another method.")
    if session.order is not None:
        raise InvalidInput(RUNNING)
