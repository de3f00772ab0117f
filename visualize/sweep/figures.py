"""Plotly figures of a sweep: speed by one or two settings; plain data, and a separate page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ouroboros_core.messages import counted
from ouroboros_core.sources import LOOKS
from ouroboros_core.sweeps.cells import GAMMA, best, interval
from ouroboros_core.sweeps.grid import show
from visualize.kit.labels import named
from visualize.kit.plots import PLAIN, empty, layout, plain

if TYPE_CHECKING:
    from ouroboros_core.settings import Value
    from ouroboros_core.sweeps.cells import CellRow, Ideal
    from ouroboros_core.sweeps.grid import Axis

SLOWER, AS_FAST, FASTER, INK = "#F1A340", "#F7F7F7", "#67A9CF", "#111111"
"""Colours of cells and of their numbers, the same on a light and on a dark page."""

ASIDE = 0.35
"""Distance of a mark from its cell's middle, which has the numbers; cells are 1 wide and high."""

SPEEDUP = "speedup"
NOTHING = "Nothing is measured yet."


def heatmap(
    rows: Sequence[CellRow],
    axes: Sequence[Axis],
    ideals: Sequence[Ideal] = (),
    quantity: str = SPEEDUP,
) -> dict[str, Any]:
    """Return the heatmap of two axes: speedup as colour, with the mean acceptance length.

    The first axis runs down. The fastest cell has a star, the best draft length by theory a
    diamond, perhaps between two values. `customdata` of a cell is its index. Cells that are not
    measured yet are empty.

    quantity  name of the speedup: measured or modelled
    """
    return plain(_heatmap(rows, axes, ideals, quantity)) if rows else empty(NOTHING)


def line(
    rows: Sequence[CellRow],
    axes: Sequence[Axis],
    ideals: Sequence[Ideal] = (),
    quantity: str = SPEEDUP,
) -> dict[str, Any]:
    """Return the speedup by the values of one axis, with 95% intervals; else as `heatmap`."""
    return plain(_line(rows, axes[0], ideals, quantity)) if rows else empty(NOTHING)


def parallel(rows: Sequence[CellRow], axes: Sequence[Axis]) -> dict[str, Any]:
    """Return every cell as a line through its settings and results."""
    if not rows:
        return empty(NOTHING)
    figure = go.Figure(_parallel(rows, axes))
    figure.update_layout(
        layout("", "", margin={"l": 60, "r": 40, "t": 50, "b": 20}, hovermode="closest")
    )
    return plain(figure)


def page(
    rows: Sequence[CellRow], axes: Sequence[Axis], ideals: Sequence[Ideal], note: str
) -> go.Figure:
    """Return both charts, one above the other, for a separate page."""
    figure = _heatmap(rows, axes, ideals) if len(axes) == 2 else _line(rows, axes[0], ideals)
    traces = _parallel(rows, axes)
    traces.domain = {"x": [0.03, 0.97], "y": [0.0, 0.32]}
    figure.add_trace(traces)
    figure.update_yaxes(domain=[0.48, 1.0])
    figure.update_traces(colorbar={"y": 0.74, "len": 0.52}, selector={"type": "heatmap"})
    title = {"text": note, "font": {"size": 13}, "y": 0.99, "yanchor": "top"}
    figure.update_layout(
        template="plotly_white",
        height=900,
        margin={"l": 60, "r": 40, "t": 80, "b": 30},
        title=title,
    )
    return figure


def heat(largest: float) -> dict[str, Any]:
    """Return the look of a heatmap up to a speedup of `largest`; 1 is the middle of the scale."""
    return {
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        "textfont": {"color": INK},
        "colorscale": [[0.0, SLOWER], [1.0 / largest, AS_FAST], [1.0, FASTER]],
        "zmin": 0.0,
        "zmax": largest,
    }


def _heatmap(
    rows: Sequence[CellRow], axes: Sequence[Axis], ideals: Sequence[Ideal], quantity: str = SPEEDUP
) -> go.Figure:
    down, across = axes
    by_coordinates = {row.coordinates: row for row in rows}
    grid = [
        [by_coordinates.get((value, other)) for other in across.values] for value in down.values
    ]
    largest = max(2.0, *(row.speedup for row in rows))
    figure = go.Figure()
    figure.add_heatmap(
        x=list(range(len(across.values))),
        y=list(range(len(down.values))),
        z=[[row and row.speedup for row in line] for line in grid],
        text=[[_words(row) if row else "" for row in line] for line in grid],
        customdata=[[row.cell if row else None for row in line] for line in grid],
        texttemplate="%{text}",
        hovertext=[[_hover(row, axes) if row else "" for row in line] for line in grid],
        hovertemplate="%{hovertext}<extra></extra>",
        colorbar={"title": {"text": quantity}, "thickness": 12, "len": 0.9},
        showlegend=False,
        **heat(largest),
    )
    if fastest := best(rows):
        first, second = fastest.coordinates
        _star(
            figure,
            fastest,
            axes,
            across.values.index(second) - ASIDE,
            down.values.index(first),
            quantity,
        )
    for ideal in ideals:
        if down.name == GAMMA:
            spot = across.values.index(ideal.others[0]) + ASIDE, slot(down, ideal.gamma)
        elif across.name == GAMMA:
            spot = slot(across, ideal.gamma), down.values.index(ideal.others[0]) + ASIDE
        else:
            break
        _diamond(figure, *spot, ideal, first=ideal is ideals[0])
    figure.update_layout(layout(named(across.name), named(down.name), hovermode="closest"))
    _label(figure.layout.xaxis, across)
    _label(figure.layout.yaxis, down)
    figure.update_yaxes(autorange=None, range=[len(down.values) - 0.5, -0.5], rangemode=None)
    figure.update_xaxes(range=[-0.5, len(across.values) - 0.5])
    return figure


def _line(
    rows: Sequence[CellRow], axis: Axis, ideals: Sequence[Ideal], quantity: str = SPEEDUP
) -> go.Figure:
    figure = go.Figure()
    figure.add_scatter(
        x=[axis.values.index(row.coordinates[0]) for row in rows],
        y=[row.speedup for row in rows],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, row.ci95[1] - row.speedup) for row in rows],
            "arrayminus": [max(0.0, row.speedup - row.ci95[0]) for row in rows],
        },
        text=[_words(row) for row in rows],
        customdata=[row.cell for row in rows],
        hovertext=[_hover(row, [axis]) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
        mode="lines+markers",
        name=_series(rows, quantity),
        line={"color": LOOKS["draft"].colour, "width": 2.5},
    )
    if fastest := best(rows):
        _star(
            figure,
            fastest,
            [axis],
            axis.values.index(fastest.coordinates[0]),
            fastest.speedup,
            quantity,
        )
    for ideal in ideals if axis.name == GAMMA else ():
        _diamond(figure, slot(axis, ideal.gamma), ideal.speedup, ideal)
    figure.add_hline(
        y=1,
        line={"color": PLAIN, "dash": "dot", "width": 1.5},
        annotation_text="as fast as plain decoding",
    )
    figure.update_layout(
        layout(named(axis.name), f"{quantity} over plain decoding", hovermode="closest")
    )
    _label(figure.layout.xaxis, axis)
    figure.update_xaxes(range=[-0.5, len(axis.values) - 0.5])
    return figure


def _parallel(rows: Sequence[CellRow], axes: Sequence[Axis]) -> go.Parcoords:
    dimensions: list[dict[str, Any]] = [
        {
            "label": named(axis.name),
            "values": [axis.values.index(row.coordinates[number]) for row in rows],
            "tickvals": list(range(len(axis.values))),
            "ticktext": labels(axis),
            "range": [-0.2, len(axis.values) - 0.8],
        }
        for number, axis in enumerate(axes)
    ]
    dimensions.append(
        {
            "label": "tokens per pass",
            "values": [row.acceptance_length for row in rows],
            "tickformat": ".2f",
        }
    )
    if any(row.acceptance_rate is not None for row in rows):
        rates = [row.acceptance_rate or 0.0 for row in rows]
        dimensions.append({"label": "accepted", "values": rates, "tickformat": ".0%"})
    dimensions.append(
        {
            "label": "tokens/s",
            "values": [row.tokens_per_second for row in rows],
            "tickformat": ".1f",
        }
    )
    speedups = [row.speedup for row in rows]
    dimensions.append({"label": "speedup", "values": speedups, "tickformat": ".2f"})
    colours = {
        "color": speedups,
        "colorscale": [[0.0, "#B35806"], [0.5, "#8A8A8A"], [1.0, "#2166AC"]],
        "cmid": 1.0,
    }
    return go.Parcoords(dimensions=dimensions, line=colours, customdata=[row.cell for row in rows])


def _star(
    figure: go.Figure, row: CellRow, axes: Sequence[Axis], x: float, y: float, quantity: str
) -> None:
    """Mark the cell that was fastest, or would be."""
    name = "measured best" if quantity == SPEEDUP else "modelled best"
    figure.add_scatter(
        x=[x],
        y=[y],
        customdata=[row.cell],
        mode="markers",
        name=name,
        marker={
            "symbol": "star",
            "size": 15,
            "color": "#F0E442",
            "line": {"color": "#1a1a1a", "width": 1.5},
        },
        hovertext=[_hover(row, axes)],
        hovertemplate=f"{name}<br>%{{hovertext}}<extra></extra>",
    )


def _diamond(figure: go.Figure, x: float, y: float, ideal: Ideal, *, first: bool = True) -> None:
    """Mark the best draft length by theory."""
    label = (
        f"by theory: draft length {ideal.gamma}, {ideal.speedup:.2f}×<br>alpha "
        f"{ideal.alpha:.2f}, c {ideal.cost:.2f}"
    )
    figure.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        name="best draft length by theory"
        if ideal.others
        else f"by theory: draft length {ideal.gamma}",
        marker={
            "symbol": "diamond",
            "size": 12,
            "color": "#FFFFFF",
            "line": {"color": "#1a1a1a", "width": 2},
        },
        hovertemplate=label + "<extra></extra>",
        legendgroup="theory",
        showlegend=first,
    )


def slot(axis: Axis, value: Value) -> float:
    """Return the position of a value on an axis with steps of 1, perhaps between its values."""
    if value in axis.values:
        return axis.values.index(value)
    assert not isinstance(value, str)
    numbers = [(float(v), float(n)) for n, v in enumerate(axis.values) if not isinstance(v, str)]
    below = [n for n in numbers if n[0] < value]
    above = [n for n in numbers if n[0] > value]
    if not below and not above:  # an axis without numbers
        return 0.0
    if not above:
        return max(below)[1] + 0.4
    if not below:
        return min(above)[1] - 0.4
    (low, start), (high, end) = max(below), min(above)
    return start + (end - start) * (value - low) / (high - low)


def labels(axis: Axis) -> list[str]:
    """Return the values as texts; of paths only the last component, if it is unique."""
    texts = [show(value) for value in axis.values]
    short = [text.rstrip("/").rsplit("/", 1)[-1] for text in texts]
    return short if len(set(short)) == len(short) else texts


def _label(axis: Any, values: Axis) -> None:
    axis.tickvals = list(range(len(values.values)))
    axis.ticktext = labels(values)


def _series(rows: Sequence[CellRow], quantity: str) -> str:
    """Return the name of the line; a modelled one has no interval."""
    if quantity != SPEEDUP:
        return quantity
    return "speedup, 95% interval" if any(map(interval, rows)) else "speedup, one prompt"


def _words(row: CellRow) -> str:
    return f"{row.speedup:.2f}×<br>{row.acceptance_length:.2f} tokens"


def _hover(row: CellRow, axes: Sequence[Axis]) -> str:
    """Return all facts of a cell."""
    coordinates = (
        labels(axis)[axis.values.index(v)] for axis, v in zip(axes, row.coordinates, strict=True)
    )
    lines = [f"{named(axis.name)} {text}" for axis, text in zip(axes, coordinates, strict=True)]
    lines += [
        f"{row.speedup:.2f}×{interval(row)}{row.between}",
        f"{row.acceptance_length:.2f} tokens per pass",
    ]
    if row.acceptance_rate is not None:
        lines.append(f"{row.acceptance_rate:.0%} of tested tokens accepted")
    lines.append(f"{row.speeds} tokens/s, {counted(row.runs, 'run')}")
    return "<br>".join(lines)
