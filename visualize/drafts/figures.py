"""Plotly figures of what was measured beforehand: how drafts were trained, and how methods
compare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from ouroboros_core.benchmark.report import Row
from ouroboros_core.training.folder import agreement_of
from visualize.kit.plots import INK, PLAIN, layout, mark_plain, plain

SERIES = (
    PLAIN,
    "#7C3AED",
    "#0F766E",
    "#A16207",
    "#BE185D",
    "#1D4ED8",
    "#4D7C0F",
    "#0891B2",
    "#9F1239",
    "#78716C",
)
"""Colours of methods that stand side by side; no token but plain decoding's has them."""

RISE = 1.1
"""A smoothed loss that grows by this factor from one point to the next is another loss."""

BAR = (
    "%{y:.2f}× [%{customdata[2]:.2f}, %{customdata[3]:.2f}], %{customdata[0]:.2f} tokens per pass, "
    "%{customdata[1]:.1f} tokens/s"
)
"""The tooltip of a bar, as a template of Plotly."""


def training_agreement(record: dict[str, Any]) -> dict[str, Any]:
    """Draw held-out agreement over answer tokens, a line for each token ahead."""
    figure, curve = go.Figure(), record["curve"]
    broken = _broken(record)
    steps = max(len(agreement_of(point)) for point in curve)
    for step, colour in zip(range(steps), SERIES[1:], strict=False):
        figure.add_scatter(
            x=[point["tokens"] for point in broken],
            y=[_agreement(point, step) for point in broken],
            mode="lines",
            name="next token" if step == 0 else f"{step + 1} tokens ahead",
            line={"color": colour, "width": 2.5},
            hovertemplate="%{y:.1%}<extra></extra>",
        )
    figure.update_layout(
        layout("answer tokens trained on", "held-out agreement", showlegend=steps > 1)
    )
    figure.update_yaxes(tickformat=".0%")
    return plain(figure)


def training_loss(record: dict[str, Any]) -> dict[str, Any]:
    """Draw the smoothed loss over answer tokens: nats; a head adds its distance to features."""
    broken = _broken(record)
    figure = go.Figure()
    figure.add_scatter(
        x=[point["tokens"] for point in broken],
        y=[point.get("loss") for point in broken],
        mode="lines",
        line={"color": INK, "width": 2.5},
        hovertemplate="%{y:.2f}<extra></extra>",
    )
    figure.update_layout(layout("answer tokens trained on", "training loss", showlegend=False))
    return plain(figure)


def _broken(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of a recorded curve; where training went on with other texts or another loss,
    which the record says or a loss that rises at once, a point without values between them."""
    found: list[dict[str, Any]] = []
    for point in record["curve"]:
        before = found[-1] if found else point
        resumed = before["tokens"] <= record.get("earlier", 0) < point["tokens"]
        if found and (resumed or point["loss"] > RISE * before["loss"]):
            found.append({"tokens": before["tokens"]})
        found.append(point)
    return found


def _agreement(point: dict[str, Any], step: int) -> float | None:
    found = agreement_of(point) if "agreement" in point else []
    return found[step] if len(found) > step else None


def speedups_by_group(rows: Sequence[Row], note: str) -> go.Figure:
    """A benchmark's speedup over plain decoding, one group of bars per group of prompts; a picture
    that stands alone.

    A draft model writing alone is left out: it makes no target pass, and its bars would dwarf all
    others.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(row.method for row in rows if row.tokens_per_pass))
    for number, (name, colour) in enumerate(zip(names, cycle(SERIES), strict=False)):
        mine = [row for row in rows if row.method == name]
        figure.add_bar(
            x=[row.group for row in mine],
            y=[row.speedup for row in mine],
            name=name,
            marker={
                "color": colour,
                "pattern": {"shape": "/" if number >= len(SERIES) else ""},
            },  # a colour twice is hatched
            customdata=[(row.tokens_per_pass, row.tokens_per_second, *row.ci95) for row in mine],
            hovertemplate=f"{BAR}<extra>{name}</extra>",
        )
    mark_plain(figure)
    shape = layout("", "speedup over plain decoding", barmode="group", hovermode="closest")
    margin = {
        "l": 60,
        "r": 20,
        "t": 60 + 20 * -(-len(names) // 5),
        "b": 50,
    }  # some five names to a row of the legend
    title = {"text": note, "font": {"size": 13}, "y": 0.99, "yanchor": "top"}
    figure.update_layout({**shape, "template": "plotly_white", "margin": margin, "title": title})
    return figure


def write_page(figure: go.Figure, path: Path) -> None:
    """Write a figure as a page that needs nothing else."""
    figure.write_html(path, include_plotlyjs=True)
