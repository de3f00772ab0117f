"""Files of a run that the browser saves (trace, replay, table), and the link to its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ouroboros_core.trace.trace import Trace
from visualize.deploy.static_site import replay_html
from visualize.run import export, permalink

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.trace.equality import Divergence

TYPES = {"json": "application/json", "html": "text/html", "csv": "text/csv"}
"""The type of each kind of file."""


def link(task: Task, model: str = "") -> dict[str, Any]:
    """Return the value of a SaveView with a link to the inputs of a task; raises InvalidInput."""
    said = f"It holds these inputs, run with {model}." if model else "It holds these inputs."
    return {"link": permalink.query(permalink.of_task(task, model)), "said": said}


def recorded_link(name: str, trace: Trace) -> dict[str, Any]:
    """Return the value of a SaveView with a link to a recorded run."""
    return {"link": f"#run={name}", "said": f"It opens this run, recorded with {trace.target}."}


def file(
    kind: str, trace: Trace, baseline: Trace | None, difference: Divergence | None = None
) -> dict[str, Any]:
    """Return the value of a SaveView with name, type and text of a file of a run."""
    if kind not in TYPES or not trace.steps:
        return {"problem": "There is no run to save yet: generate one, or open one."}
    if kind == "json":
        text = trace.to_json(baseline)
    elif kind == "csv":
        text = export.to_csv(trace, baseline)
    else:
        text = replay_html(trace, baseline, difference)
    stamp = trace.created[:19].replace(":", "").replace("-", "")
    return {"name": f"{trace.method}-{stamp}.{kind}", "type": TYPES[kind], "text": text}
