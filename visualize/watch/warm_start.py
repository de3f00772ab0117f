"""What a method keeps of a visitor's runs for a warm start, as a file: taken along, and brought
back, here or by `--memory` in the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.lookup.memory import read_memory
from ouroboros_core.trace.file import MAX_BYTES
from ouroboros_core.words import counted
from visualize.kit.events import PRIVATE
from visualize.kit.inputs import RunInputs, learns
from visualize.server.errors import field
from visualize.server.models import Models
from visualize.server.session import Session

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair

NOTHING = (
    "There is nothing yet that this method has learned with these settings: switch warm start on, "
    "and generate."
)
RUNNING = "A run is under way, and learns: wait until it has ended."


class Keeping:
    """Wires the file of what a method has learned; `models`: those of the page."""

    def __init__(self, session: gr.State, models: Models) -> None:
        self.session, self.models = session, models

    def wire(self, inputs: RunInputs, pair: Any) -> None:
        """inputs: whose method and settings it is for; pair: the component with the models."""
        given = [self.session, pair, inputs.ask]

        def save(session: Session, pair: str, gathered: Any) -> dict[str, Any]:
            try:
                told = self.saved(session, inputs.read(gathered)[0], self._loaded(pair))
            except OuroborosError as error:
                told = {"said": str(error)}
            return {"seq": time.time_ns(), **told}

        def load(
            event: gr.EventData, session: Session, pair: str, gathered: Any
        ) -> tuple[dict[str, Any], Any]:
            warm = gr.skip()
            try:
                name, text = field(event, "name", str)[:100], field(event, "text", str)
                found = self.loaded(session, inputs.read(gathered)[0], self._loaded(pair), text)
                said, warm = f"{name}: {found}", True
            except OuroborosError as error:
                said = str(error)
            return {"seq": time.time_ns(), "said": said}, warm

        view = inputs.learned
        view.save_memory(save, given, view, queue=False, **PRIVATE)
        view.load_memory(load, given, [view, inputs.warm], queue=False, **PRIVATE)

    def _loaded(self, name: str) -> Pair:
        pair = self.models.there(name)
        if pair is None:
            raise InvalidInput("The models are not loaded yet: wait for them, and try again.")
        return pair

    @staticmethod
    def saved(session: Session, task: Task, pair: Pair) -> dict[str, Any]:
        """Name, type and text of the file; raises InvalidInput."""
        memory = _idle(session, task).memory(task, pair)
        if memory is None or not memory.runs:
            raise InvalidInput(NOTHING)
        said = f"{memory.holds} after {counted(memory.runs, 'run')}"
        file = {"name": f"{task.method}-memory.json", "type": "application/json"}
        return {"said": said, "text": memory.to_json(), **file}

    @staticmethod
    def loaded(session: Session, task: Task, pair: Pair, text: str) -> str:
        """What is said of a file once the session has it; raises InvalidInput."""
        if len(text) > MAX_BYTES:
            raise InvalidInput(f"the file has {len(text):,} characters, allowed are {MAX_BYTES:,}")
        memory = read_memory(text, pair.fingerprint)
        _idle(session, task).remember(task, pair, memory)
        known = counted(memory.runs, "run")
        return f"{memory.holds} after {known}. The next run begins with it."


def _idle(session: Session, task: Task) -> Session:
    """The session, while nothing learns in it; raises InvalidInput."""
    if not learns(task.method):
        raise InvalidInput(f"{task.method} keeps nothing from run to run: choose another method.")
    if session.asked is not None:
        raise InvalidInput(RUNNING)
    return session
