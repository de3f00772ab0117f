"""Compare: rows of settings and methods on one axis of seconds, recorded or measured here.

A row opens in Watch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core.errors import InvalidInput, OuroborosError
from visualize.compare import view as compare_view
from visualize.compare.comparison import Comparison, Plan, SideBySide
from visualize.compare.components import CompareView
from visualize.compare.job import CompareJob
from visualize.gallery.tab import WATCH
from visualize.kit.events import PRIVATE, errors_on_page, field, in_words, refused
from visualize.run.view import LIVE, View
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner
from visualize.watch import visit
from visualize.watch.session import Session
from visualize.watch.tab import WatchPanel

if TYPE_CHECKING:
    from gradio.layouts import Tabs

COMPARE = "compare"
"""The id of this place."""
MOST_PROMPTS, MOST_TOKENS = 12, 256
"""Most prompts of a comparison, and tokens of a run."""


class ComparePanel:
    """Builds the tab inside an open gr.Blocks; runs are opened in the panel that shows them."""

    def __init__(self, runner: Runner, watch: WatchPanel, tabs: Tabs) -> None:
        self.runner, self.watch = runner, watch
        self.most_tokens = min(MOST_TOKENS, runner.limits.new_tokens)
        self.measured = gr.State(None)
        self.view = CompareView(most_tokens=self.most_tokens, elem_id="compare-view")
        self._wire(tabs)

    def _wire(self, tabs: Tabs) -> None:
        computing: dict[str, Any] = {"concurrency_limit": None, "trigger_mode": "once", **PRIVATE}
        running = self.view.measure(
            self._measure, self.watch.pair, [self.view, self.measured], **computing
        )
        self.view.stop_measuring(
            lambda: {"seq": time.time_ns(), "stopped": True},
            outputs=self.view,
            cancels=[running],
            queue=False,
            **PRIVATE,
        )
        self.view.open_run(
            self._open,
            [self.measured, self.watch.session],
            [self.view, tabs, *self.watch.outputs],
            concurrency_limit=None,
            **PRIVATE,
        )
        self.watch.visit.compare_runs(
            self._compare_runs,
            outputs=[tabs, self.view, self.measured, self.watch.visit],
            concurrency_limit=None,
            **PRIVATE,
        )
        self.view.save_table(self._save, self.measured, self.view, queue=False, **PRIVATE)

    def _measure(self, request: gr.Request, event: gr.EventData, pair: str) -> Iterator[Any]:
        try:
            plan = Plan.read(field(event, "plan", dict), MOST_PROMPTS, self.most_tokens)
            updates = self.runner.submit(CompareJob(plan), pair=pair, visitor=visitor_id(request))
            yield from (shown for shown in compare_view.stream(updates, plan) if shown[0])
        except Exception as error:
            yield compare_view.fault(in_words(error)), gr.skip()

    @staticmethod
    def _compare_runs(event: gr.EventData) -> list[Any]:
        """Show two runs of this visit as rows, or say at the card why they are no pair."""
        with errors_on_page():
            try:
                runs = [visit.read(field(event, name, dict)) for name in ("a", "b")]
                rows = SideBySide(*runs)
                view = compare_view.side_by_side(rows)
                return [gr.Tabs(selected=COMPARE), view, rows, gr.skip()]
            except OuroborosError as error:
                return [*(gr.skip() for _ in range(3)), refused(error)]

    def _open(
        self, event: gr.EventData, comparison: Comparison | SideBySide | None, session: Session
    ) -> list[Any]:
        """Open the run of a row in Watch."""
        with errors_on_page():
            try:
                lane, prompt = field(event, "lane", int), field(event, "prompt", int)
                compared = comparison or compare_view.recorded()
                runs = compared.shown(lane)
                if prompt not in runs:
                    raise InvalidInput("This run is no longer there: measure again.")
                trace, baseline = runs[prompt]
                badge, name = (
                    (LIVE, "") if comparison else ("", compare_view.recorded_names()[lane])
                )
                shown = self.watch.show(
                    session, trace, baseline, name, badge=badge, speedup=compared.speedup(lane)
                )
                return [gr.skip(), gr.Tabs(selected=WATCH), *shown]
            except OuroborosError as error:
                return [refused(error), *(gr.skip() for _ in range(1 + len(self.watch.outputs)))]

    @staticmethod
    def _save(comparison: Comparison | None) -> View:
        return {
            "seq": time.time_ns(),
            "file": compare_view.table(comparison or compare_view.recorded()),
        }
