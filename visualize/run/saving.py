"""Saving a run from Watch: trace, replay and table as files that the browser makes, and
a link to the inputs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core.errors import OuroborosError
from ouroboros_core.trace.trace import Trace
from visualize.deploy.static_site import replay_html
from visualize.kit.events import PRIVATE
from visualize.kit.inputs import RunInputs
from visualize.run import export, permalink
from visualize.run.components import SaveView
from visualize.server.errors import field
from visualize.server.session import Session

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task

Run = tuple[Trace, Trace | None]
TYPES = {"json": "application/json", "html": "text/html", "csv": "text/csv"}


class Saving:
    """The row of buttons below a run; `first` is the one on screen when the page opens."""

    def __init__(self, session: gr.State, first: Run) -> None:
        self.session, self._first = session, first
        self.view = SaveView((*TYPES, "link"), elem_id="save-view")

    def wire(self, inputs: RunInputs) -> None:
        """inputs: what a link describes."""

        def save(event: gr.EventData, session: Session, gathered: Any) -> dict[str, Any]:
            try:
                kind = field(event, "kind", str)
                link = kind == "link"
                done = self._link(inputs.read(gathered)[0]) if link else self.file(kind, session)
            except OuroborosError as error:
                done = {"problem": str(error)}
            return {"seq": time.time_ns(), **done}

        given = [self.session, inputs.ask]
        self.view.save_run(save, given, self.view, queue=False, **PRIVATE)

    @staticmethod
    def _link(task: Task) -> dict[str, Any]:
        settings, sampling = task.hyperparameters.model_dump(), task.sampling.model_dump()
        inputs = permalink.Inputs(
            task.prompt,
            task.method,
            task.chat,
            task.max_new_tokens,
            settings,
            sampling,
            task.generation_config,
        )
        return {"link": permalink.query(inputs)}

    def file(self, kind: str, session: Session) -> dict[str, Any]:
        """Name, type and text of a file of the run that is shown."""
        trace, baseline = session.shown or self._first
        if kind not in TYPES or not trace.steps:
            return {"problem": "There is no run to save yet: generate one, or open one."}
        if kind == "json":
            text = trace.to_json(baseline)
        elif kind == "csv":
            text = export.to_csv(trace, baseline)
        else:
            text = replay_html(trace, baseline, session.difference)
        stamp = trace.created[:19].replace(":", "").replace("-", "")
        return {"name": f"{trace.method}-{stamp}.{kind}", "type": TYPES[kind], "text": text}
