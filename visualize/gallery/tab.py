"""Recorded runs, in the Lab: recorded runs, a file that is opened, and two runs compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.messages import say
from ouroboros_core.trace.file import read_run
from visualize.gallery import runs as gallery
from visualize.gallery.components import GalleryView, OpenView
from visualize.kit import plots
from visualize.kit.events import PRIVATE, errors_on_page, field
from visualize.kit.plot_view import PlotView
from visualize.run import diff, diff_figures
from visualize.run.components import DiffView
from visualize.run.view import View
from visualize.watch.session import Session
from visualize.watch.tab import WatchPanel

if TYPE_CHECKING:
    from gradio.layouts import Tab, Tabs

    from ouroboros_core.trace.trace import Trace

COMPARED = "fibonacci-speculative", "fibonacci-multi_candidate"
"""The runs that are compared until a visitor chooses others."""
SHOW_COMPARISON = """() => {
  document.getElementById("comparison").scrollIntoView({ block: "start" });
}"""
"""The comparison is behind all cards."""
CHOOSE = "Choose two runs of one prompt."
WATCH = "watch"
"""The id of the place in which a run is opened."""


class TracesPanel:
    """Builds the tab inside an open gr.Blocks; runs are opened in the panel that shows them."""

    def __init__(self, watch: WatchPanel, tabs: Tabs, tab: Tab) -> None:
        self.watch = watch
        gr.Markdown(say("traces.intro"))
        with gr.Row(elem_classes="ouro-chips"):
            to_comparison = gr.Button(
                "Two runs side by side", size="sm", elem_classes="ouro-chip", min_width=0
            )
        to_comparison.click(None, js=SHOW_COMPARISON, **PRIVATE)
        self.gallery = GalleryView(elem_id="gallery")
        self.open = OpenView(elem_id="open-view")
        gr.Markdown(f"## Two runs compared\n\n{say('traces.diff.note')}", elem_id="comparison")
        recorded = [(entry["title"], entry["name"]) for entry in gallery.entries()]
        with gr.Row(elem_classes="ouro-pair"):
            self.first = gr.Dropdown(
                recorded,
                value=COMPARED[0],
                label="Run A",
                elem_id="diff-first",
            )
            self.second = gr.Dropdown(
                recorded, value=COMPARED[1], label="Run B", elem_id="diff-second"
            )
        self.compare = gr.Button("Compare", variant="primary", elem_id="compare")
        shown, figure = _compared(*map(gallery.paced, COMPARED))
        self.diff = DiffView({"seq": 0, **shown}, elem_id="diff-view")
        self.chart = PlotView(
            {"seq": 0, "figure": figure},
            label="Cumulative target passes",
            elem_id="chart-diff",
        )
        self._wire(tabs, tab, recorded)

    def _wire(self, tabs: Tabs, tab: Tab, recorded: Sequence[tuple[str, str]]) -> None:
        shown = [tabs, self.open, *self.watch.outputs]
        session = self.watch.session

        def choices(session: Session) -> list[Any]:
            return [
                gr.update(choices=[*((name, name) for name in reversed(session.runs)), *recorded])
            ] * 2

        # Where nothing of its own shows a refusal, the event goes through the queue: from
        # others Gradio shows none.
        self.gallery.open_recorded(
            self._open_recorded, session, shown, concurrency_limit=None, **PRIVATE
        )
        self.open.open_file(self._open_file, session, shown, concurrency_limit=None, **PRIVATE)
        tab.select(choices, session, [self.first, self.second], queue=False, **PRIVATE)
        compared = [self.diff, self.chart]
        self.compare.click(
            self._compare,
            [self.first, self.second, session],
            compared,
            concurrency_limit=None,
            **PRIVATE,
        )

    def _open_recorded(self, event: gr.EventData, session: Session) -> list[Any]:
        with errors_on_page():
            name = field(event, "name", str)
            trace, baseline = gallery.trace(name), gallery.baseline(name)
            return self._shown(session, trace, baseline, "", recorded=name)

    def _open_file(self, event: gr.EventData, session: Session) -> list[Any]:
        with errors_on_page():
            name = field(event, "name", str)[:100]
            text = field(event, "text", str)
        try:
            trace, baseline = read_run(text)
        except OuroborosError as error:
            return [
                gr.skip(),
                _told(f"{name}: {error}"),
                *(gr.skip() for _ in self.watch.outputs),
            ]
        session.keep(trace)
        return self._shown(session, trace, baseline, f"{name} is shown in Watch.")

    def _shown(
        self, session: Session, trace: Trace, baseline: Trace | None, said: str, recorded: str = ""
    ) -> list[Any]:
        return [
            gr.Tabs(selected=WATCH),
            _told(said),
            *self.watch.show(session, trace, baseline, recorded),
        ]

    @staticmethod
    def _compare(first: str, second: str, session: Session) -> tuple[Any, Any]:
        """The comparison, or why there is none; either takes the place of the one before."""
        seq = time.time_ns()
        with errors_on_page():
            try:
                a, b = (_chosen(name, session) for name in (first, second))
                shown, figure = _compared(a, b)
            except OuroborosError as error:
                shown, figure = {"problem": str(error)}, plots.empty(CHOOSE)
            return {"seq": seq, **shown}, {"seq": seq, "run": "", "figure": figure}


def _compared(a: Trace, b: Trace) -> tuple[View, dict[str, Any]]:
    """Where one of two runs saved steps, and a chart of both; raises InvalidInput where they cannot
    be compared."""
    return diff.view(diff.diff(a, b)), diff_figures.steps_against_tokens(a, b)


def _chosen(name: Any, session: Session) -> Trace:
    """A run of this session, or a recorded one; raises InvalidInput for what is neither."""
    if not isinstance(name, str):
        raise InvalidInput("Choose two runs to compare.")
    return session.runs[name] if name in session.runs else gallery.paced(name)


def _told(words: str) -> dict[str, Any]:
    return {"seq": time.time_ns(), "said": words}
