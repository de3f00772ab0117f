"""Plotly figures of two runs of one prompt."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from ouroboros_core.sources import LOOKS
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from visualize.kit.plots import PLAIN, layout, plain, words_only


def steps_against_tokens(a: Trace, b: Trace) -> dict[str, Any]:
    """Steps that A and B needed until so many tokens were there, with a line where their texts
    part; lower is better."""
    figure = go.Figure()
    for name, run, colour, dash in (
        ("A", a, PLAIN, "dot"),
        ("B", b, LOOKS["draft"].colour, "solid"),
    ):
        figure.add_scatter(
            x=[0, *accumulate(len(step.tokens) for step in run.steps)],
            y=list(range(len(run.steps) + 1)),
            name=f"{name}: {words_only(run.method)}",
            mode="lines",
            line={"shape": "vh", "color": colour, "width": 2.5, "dash": dash},
            hovertemplate=f"steps: %{{y}}<extra>{name}</extra>",
        )
    where = metrics.first_difference(a.tokens, b.tokens)
    if where is not None and where < min(metrics.new_tokens(a), metrics.new_tokens(b)):
        figure.add_vline(
            x=where,
            line={"color": PLAIN, "dash": "dot", "width": 1.5},
            annotation_text="the texts part",
        )
    figure.update_layout(layout("tokens", "steps (one target pass each)"))
    return plain(figure)
