"""Plotly figures of how drafts were trained."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from ouroboros_core.training.folder import agreement_of
from visualize.kit.plots import INK, layout, plain

AHEAD = (
    *("#7C3AED", "#0F766E", "#A16207", "#BE185D", "#1D4ED8"),
    *("#4D7C0F", "#0891B2", "#9F1239", "#78716C"),
)
"""Colours of the next token, and of tokens ahead; no token has them."""
RISE = 1.1
"""A smoothed loss that grows by this factor from one point to the next is another loss."""


def training_agreement(record: dict[str, Any]) -> dict[str, Any]:
    """Draw held-out agreement over answer tokens, a line for each token ahead."""
    figure, curve = go.Figure(), record["curve"]
    broken = _broken(record)
    steps = max(len(agreement_of(point)) for point in curve)
    for step, colour in zip(range(steps), AHEAD, strict=False):
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
