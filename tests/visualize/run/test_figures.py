"""The charts of a run: each number in them is recomputed by hand, and a chart is declared once."""

from __future__ import annotations

import json
import subprocess
import sys

from tests import ROOT

DECLARE = """
import json
import gradio as gr
from ouroboros_core.trace.summary import Summary
from tests.traces import typed_trace
from visualize.run import figures
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.watch.tab import WatchPanel, has_charts

figures.CHARTS.append(figures.Chart(
    "declared-here", "A new chart", "The title of a new chart", "step",
    lambda run: figures.empty(f"{run.tokens} tokens"),
    grow=lambda steps: figures.empty(f"{len(steps)} steps so far"),
    applies=lambda trace: len(trace.steps) == 3,
))
with gr.Blocks() as page:
    WatchPanel(Runner(Models(lambda _: None)), gr.State(""))
components = {c["props"].get("elem_id"): c["props"] for c in page.config["components"]}
trace = typed_trace()
print(json.dumps({
    "chart": components["chart-declared-here"],
    "details": components["details"],
    "whole": figures.all_charts(Summary(trace))["declared-here"],
    "growing": figures.growing(trace.steps[:2])["declared-here"],
    "has": has_charts(trace),
}, default=str))
"""


def test_a_chart_that_is_declared_is_drawn_and_has_its_place_in_watch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DECLARE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    shown = {name: json.dumps(value) for name, value in json.loads(done.stdout).items()}
    assert "The title of a new chart" in shown["chart"]
    assert "A new chart" in shown["details"] and "declared-here" in shown["details"]
    assert "7 tokens" in shown["whole"] and "2 steps so far" in shown["growing"]
    assert "declared-here" in shown["has"]
