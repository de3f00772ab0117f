"""The view of a run in any other Gradio app: the text, each token in the colour of who wrote it,
with timeline, token tree and cards. On this project's page `TokenView` shows the same.

In an app of another project three lines show a run, and nothing else is needed there:

    from visualize.components import OuroborosView
    with gr.Blocks() as demo:
        OuroborosView("trace.json")
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sources import Source
from ouroboros_core.trace.file import MAX_BYTES, read_run
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from visualize.kit.events import errors_on_page, field, sent
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import PLOTLY_JS
from visualize.kit.modules import carried
from visualize.kit.palette import run_style
from visualize.run import view as views
from visualize.run.components import TOKEN_VIEW

if TYPE_CHECKING:
    from collections.abc import Callable

Given = Trace | tuple[Trace, Trace | None] | Path | str | bytes | dict[str, Any]
"""A value of the view: a trace, with or without its plain run; its file; its JSON, as text or
parsed."""


class TokenSelected(gr.EventData):
    """The event of `view.select`, for a listener with an argument of this type.

    index   of the token in `trace.tokens`, from 0
    step    index in `trace.steps` of the step that emitted it
    source  who proposed it; `Source.TARGET` for the target's own
    kind    "correction" or "bonus" for the target's own token where something had been proposed;
            None for any other
    text    its text
    """

    def __init__(self, target: Any, data: Any) -> None:
        super().__init__(target, data)
        with errors_on_page():
            self.index = _count(self, "index")
            self.step = _count(self, "step")
            self.source = _source(field(self, "source", str))
            self.kind: str | None = None if sent(self, "kind") is None else field(self, "kind", str)
            self.text = field(self, "text", str)


class StepShown(gr.EventData):
    """The event of `view.step`, for a listener with an argument of this type: the step at
    which the cursor of the timeline, or a token that was chosen, stays for 0.15 s.

    step     its index in `trace.steps`
    tokens   how many tokens of the answer there are after it
    seconds  from the start of the run to this moment of it
    """

    def __init__(self, target: Any, data: Any) -> None:
        super().__init__(target, data)
        with errors_on_page():
            self.step = _count(self, "step")
            self.tokens = _count(self, "tokens")
            self.seconds = float(field(self, "seconds", int | float))  # type: ignore[arg-type]


class OuroborosView(JsonHTML):
    """A run that can be replayed step by step and asked token by token.

    It brings its scripts, styles and colours with it, follows the light or dark theme of the app
    around it, and asks no other machine for anything. Any number of them may stand on a page.

    Events: `view.select(fn)` where a visitor chooses a token, with an argument of the type
    `TokenSelected`; `view.step(fn)` where another step is shown, with one of the type `StepShown`.

    The value that an event gives it is a `Given`. Files and JSON are read within the bounds of
    `trace_io`, and what is no trace is refused with a sentence: as `InvalidInput` where the view is
    made, as an error on the page in an event. As an input of an event it gives None: what is in the
    browser is a picture of a run, not the run.
    """

    if TYPE_CHECKING:
        select: Callable[..., Any]
        step: Callable[..., Any]

    def __init__(self, value: Given | Callable[[], Given] | None = None, **options: Any) -> None:
        """value: a `Given`, or a function without arguments that returns one for every visitor. A
        string that does not begin with { is the path of a file here, and here only: in an event it
        would let a visitor's text open files of the server, so a path is a `Path` there.

        Raises InvalidInput for a value that is no trace.
        """
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            value = Path(value)
        gr.set_static_paths([PLOTLY_JS])
        facts: dict[str, Any] = {"looks": views.legend(), "plotly": f"gradio_api/file={PLOTLY_JS}"}
        facts |= {"padding": False, "styles": run_style(), **options}
        try:
            super().__init__(value, TOKEN_VIEW, module=carried(TOKEN_VIEW.module), **facts)
        except gr.Error as error:
            raise InvalidInput(error.message) from None

    def __getattr__(self, name: str) -> Any:
        """The events alone; gr.HTML would take any word in the scripts for one."""
        if name in TOKEN_VIEW.events:
            return super().__getattr__(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def preprocess(self, payload: Any) -> Any:
        return None

    def postprocess(self, value: Any) -> Any:
        if value is None:
            return None
        with errors_on_page():
            return super().postprocess(shown(value))


def shown(given: Given) -> views.View:
    """Return the view of a run; raises InvalidInput for another value."""
    trace, baseline = _run(given)
    return views.run_view(
        Summary(trace, baseline), run=uuid.uuid4().hex, seq=1, badge_text=views.badge(trace)
    )


def _run(given: Given) -> tuple[Trace, Trace | None]:
    """A run and the plain run beside it, read within the bounds of `trace_io`."""
    match given:
        case Trace():
            return given, None
        case (Trace() as trace, None | Trace() as baseline):
            return trace, baseline
        case Path():
            return read_run(_content(given))
        case str() | bytes():
            return read_run(given)
        case dict():
            return read_run(_json(given))
    raise InvalidInput(
        f"OuroborosView shows a Trace, a Path of its file, or its JSON as text or parsed, got a "
        f"{type(given).__name__}"
    )


def _json(given: dict[str, Any]) -> str:
    try:
        return json.dumps(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not a trace: it must be JSON: {error}") from None


def _content(path: Path) -> bytes:
    """Of a file, as far as it may be read: one byte more than that is refused by the reader."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None


def _count(event: gr.EventData, name: str) -> int:
    value: int = field(event, name, int)
    if value < 0 or isinstance(value, bool):
        raise InvalidInput(f"{name} must be at least 0, got {value}")
    return value


def _source(name: str) -> Source:
    try:
        return Source(name)
    except ValueError:
        raise InvalidInput(f"source must be one of {', '.join(Source)}, got {name[:40]}") from None
