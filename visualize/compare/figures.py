"""Plotly figures of settings compared: the trade-off of one setting, by numbers or by words, and
the heat map of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ouroboros_core.messages import counted
from ouroboros_core.sweeps.cells import GAMMA, best, interval
from ouroboros_core.sweeps.grid import show
from ouroboros_core.trace.metrics import expected_tokens
from visualize.kit.labels import named
from visualize.kit.plots import PLAIN, empty, layout, plain

if TYPE_CHECKING:
    from ouroboros_core.settings import Value
    from ouroboros_core.sweeps.cells import CellRow, Ideal
    from ouroboros_core.sweeps.grid import Axis
    from ouroboros_core.what_if.draft_length import Predicted

SLOWER, AS_FAST, FASTER, INK = "#F1A340", "#F7F7F7", "#67A9CF", "#111111"
"""Colours of cells and of their numbers, the same on a light and on a dark page."""
YIELD, COST, SPEEDUP = "#7C3AED", "#A16207", "#0F766E"
"""Colours of the three lines of a trade-off; no token has them."""

ASIDE = 0.35
"""Distance of a mark from its cell's middle, which has the numbers; cells are 1 wide and high."""
YIELD_NAME, COST_NAME = "tokens per pass", "cost of a step, in plain steps"
RAYS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8)
"""Speedups of the rays on which values of one speedup lie."""
SIDES = ("top center", "bottom center", "middle right", "middle left")
"""Where a point's label stands, the best side first: beside the point is its interval."""
BETWEEN = 8
"""Points of a curve of the theory between two values."""
NOTHING = "Nothing is measured yet."


def heatmap(
    rows: Sequence[CellRow], axes: Sequence[Axis], ideals: Sequence[Ideal] = ()
) -> dict[str, Any]:
    """Return the heat map of two axes: speedup as colour, with the mean acceptance length.

    The first axis runs down. The fastest cell has a star, the best draft length by theory a
    diamond, perhaps between two values. `customdata` of a cell is its index. Cells that are not
    measured yet are empty.
    """
    return plain(_heatmap(rows, axes, ideals)) if rows else empty(NOTHING)


def trade_off(
    rows: Sequence[CellRow],
    axes: Sequence[Axis],
    ideals: Sequence[Ideal] = (),
    predicted: Mapping[int, Predicted] | None = None,
    others: Mapping[str, CellRow] | None = None,
) -> dict[str, Any]:
    """Return tokens per pass and cost of a step by the values of one axis, and their quotient, the
    speedup, with its interval; else as `heatmap`. Values without a number, such as stopping rules,
    have no order: each is a point, and its speedup is the slope of the ray through it.

    A thin line is the theory: of a chain of gamma draft tokens, each accepted with chance alpha and
    drafted for `cost` plain steps (Leviathan et al., arXiv 2211.17192). Where other draft lengths
    are `predicted`, hollow points on it take its place. Each of the `others`, by its name, has no
    such setting: a line marks its speedup.
    """
    if not rows:
        return empty(NOTHING)
    return plain(_one_axis(rows, axes, ideals, predicted or {}, others or {}))


def page(
    rows: Sequence[CellRow], axes: Sequence[Axis], ideals: Sequence[Ideal], note: str
) -> go.Figure:
    """Return the chart for a separate page."""
    figure = (
        _heatmap(rows, axes, ideals) if len(axes) == 2 else _one_axis(rows, axes, ideals, {}, {})
    )
    title = {"text": note, "font": {"size": 13}}
    return figure.update_layout(template="plotly_white", height=600, title=title)


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


def _heatmap(rows: Sequence[CellRow], axes: Sequence[Axis], ideals: Sequence[Ideal]) -> go.Figure:
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
        colorbar={"title": {"text": "speedup"}, "thickness": 12, "len": 0.9},
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
    upside_down = {"autorange": None, "range": [len(down.values) - 0.5, -0.5], "rangemode": None}
    figure.update_yaxes(**upside_down, **_ticks(down))
    figure.update_xaxes(range=[-0.5, len(across.values) - 0.5], **_ticks(across))
    return figure


def _one_axis(
    rows: Sequence[CellRow],
    axes: Sequence[Axis],
    ideals: Sequence[Ideal],
    predicted: Mapping[int, Predicted],
    others: Mapping[str, CellRow],
) -> go.Figure:
    if predicted or any(map(_is_number, axes[0].values)):
        return _lines(rows, axes, ideals, predicted, others)
    return _points(rows, axes)


def _is_number(value: Value) -> bool:
    return not isinstance(value, str | bool)


def _points(rows: Sequence[CellRow], axes: Sequence[Axis]) -> go.Figure:
    """Draw a point for each value: tokens per pass over the cost of a step. Their quotient is the
    speedup, so values that are as fast as each other lie on one ray from the origin."""
    (axis,) = axes
    figure = go.Figure()
    spots = [(_cost(row), row.acceptance_length) for row in rows]
    costs, lengths = zip(*spots, strict=True)
    left, right = _around(costs)
    bottom, top = _around(lengths)
    for speedup in RAYS:
        end = min(right, top / speedup)
        if end <= left or speedup * end <= bottom:
            continue
        figure.add_scatter(
            x=[0, end],
            y=[0, speedup * end],
            mode="lines+text",
            text=["", f"{speedup:g}×"],
            textposition="bottom left",
            name="equal speedup",
            legendgroup="rays",
            showlegend=not figure.data,
            line={"color": PLAIN, "dash": "dot", "width": 1},
            textfont={"color": PLAIN, "size": 11},
            hoverinfo="skip",
        )
    names = labels(axis)
    figure.add_scatter(
        x=costs,
        y=lengths,
        customdata=[row.cell for row in rows],
        text=[names[axis.values.index(row.coordinates[0])] for row in rows],
        textposition=_sides(spots, (right - left) / 5, (top - bottom) / 10),
        hovertext=[_hover(row, axes) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
        mode="markers+text",
        name=named(axis.name),
        cliponaxis=False,
        marker={"color": SPEEDUP, "symbol": "diamond", "size": 9},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [_cost(row, row.bounds[0]) - _cost(row) for row in rows],
            "arrayminus": [_cost(row) - _cost(row, row.bounds[1]) for row in rows],
            "thickness": 1,
        },
    )
    if fastest := best(rows):
        _star(figure, fastest, axes, _cost(fastest), fastest.acceptance_length)
    figure.update_layout(layout(COST_NAME, YIELD_NAME, hovermode="closest"))
    figure.update_xaxes(range=[left, right])
    figure.update_yaxes(range=[bottom, top], rangemode="normal")
    return figure


def _around(numbers: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis with room for labels around its numbers. It spans a good part of
    the largest, so that equal values with noise look equal."""
    low, high = min(numbers), max(numbers)
    room = max(0.2 * (high - low), 0.1 * high)
    return max(0.0, low - room), high + room


def _sides(spots: Sequence[tuple[float, float]], wide: float, high: float) -> list[str]:
    """Return for each point the side on which its label is farthest from other points and labels.

    wide, high  size of a label
    """
    shifts = dict(zip(SIDES, ((0, high), (0, -high), (wide, 0), (-wide, 0)), strict=True))
    taken, sides = [*spots], []
    for x, y in spots:

        def room(side: str, x: float = x, y: float = y) -> float:
            across, up = x + shifts[side][0], y + shifts[side][1]
            others = (spot for spot in taken if spot != (x, y))
            return min(
                (max(abs(a - across) / wide, abs(b - up) / high) for a, b in others), default=1
            )

        side = max(SIDES, key=lambda side: min(room(side), 1))
        sides.append(side)
        taken.append((x + shifts[side][0], y + shifts[side][1]))
    return sides


def _lines(
    rows: Sequence[CellRow],
    axes: Sequence[Axis],
    ideals: Sequence[Ideal],
    predicted: Mapping[int, Predicted],
    others: Mapping[str, CellRow],
) -> go.Figure:
    (axis,) = axes
    figure = go.Figure()
    if predicted:
        words = [value for value in axis.values if isinstance(value, str)]
        numbers = sorted({*predicted, *axis.values}.difference(words), key=float)
        axis = replace(axis, values=(*numbers, *words))
        _predictions(figure, axis, predicted)
    elif axis.name == GAMMA and ideals:
        _theory(figure, axis, ideals[0])
    joined = [row for row in rows if not isinstance(row.coordinates[0], str)]
    apart = [row for row in rows if isinstance(row.coordinates[0], str)]
    points = [*joined, *([None] if joined and apart else []), *apart]
    lines: tuple[tuple[str, str, str, Callable[[CellRow], float]], ...] = (
        (YIELD_NAME, YIELD, "circle", lambda row: row.acceptance_length),
        (COST_NAME, COST, "square", _cost),
        ("speedup: their quotient", SPEEDUP, "diamond", lambda row: row.speedup),
    )
    for name, colour, symbol, number in lines:
        figure.add_scatter(
            x=[row and axis.values.index(row.coordinates[0]) for row in points],
            y=[row and number(row) for row in points],
            customdata=[row and row.cell for row in points],
            hovertext=[_hover(row, axes) if row else "" for row in points],
            hovertemplate="%{hovertext}<extra></extra>",
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2},
            marker={"symbol": symbol, "size": 8},
        )
    figure.data[-1].update(
        fill="tozeroy",
        fillcolor="rgba(15, 118, 110, 0.12)",
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [row and row.bounds[1] - row.speedup for row in points],
            "arrayminus": [row and row.speedup - row.bounds[0] for row in points],
        },
    )
    for (name, row), dash in zip(others.items(), cycle(("dash", "dashdot", "longdash"))):
        figure.add_scatter(
            x=[-0.5, len(axis.values) - 0.5],
            y=[row.speedup, row.speedup],
            customdata=[row.cell, row.cell],
            mode="lines",
            name=f"speedup: {name}",
            line={"color": SPEEDUP, "dash": dash, "width": 1.5},
            hovertemplate=f"{name}: {row.speedup:.2f}×<extra></extra>",
        )
    if axis.name == GAMMA and ideals and not predicted:
        _diamond(figure, slot(axis, ideals[0].gamma), ideals[0].speedup, ideals[0])
    if fastest := best(rows):
        place = axis.values.index(fastest.coordinates[0])
        _star(figure, fastest, axes, place, fastest.speedup)
    figure.add_hline(y=1, line={"color": PLAIN, "dash": "dot", "width": 1.5})
    figure.update_layout(layout(named(axis.name), "", hovermode="closest"))
    figure.update_xaxes(range=[-0.5, len(axis.values) - 0.5], **_ticks(axis))
    return figure


def _cost(row: CellRow, speedup: float | None = None) -> float:
    """Return the seconds of a step / the seconds of a plain step: the yield by the speedup, which
    is the row's own if none is given."""
    speedup = row.speedup if speedup is None else speedup
    return row.acceptance_length / speedup if speedup else 0.0


def _theory(figure: go.Figure, axis: Axis, ideal: Ideal) -> None:
    """Add the curves of the theory between the least and the largest draft length."""
    lengths = sorted(float(value) for value in axis.values if not isinstance(value, str))
    fine = [
        low + (high - low) * part / BETWEEN
        for low, high in pairwise(lengths)
        for part in range(BETWEEN)
    ]
    fine += lengths[-1:]
    tokens = [expected_tokens(ideal.alpha, gamma) for gamma in fine]
    costs = [1 + gamma * ideal.cost for gamma in fine]
    quotient = [a / b for a, b in zip(tokens, costs, strict=True)]
    for numbers, colour in ((tokens, YIELD), (costs, COST), (quotient, SPEEDUP)):
        figure.add_scatter(
            x=[slot(axis, gamma) for gamma in fine],
            y=numbers,
            mode="lines",
            name="theory",
            legendgroup="theory",
            showlegend=colour == SPEEDUP,
            line={"color": colour, "width": 1, "dash": "dot"},
            hoverinfo="skip",
        )


def _predictions(figure: go.Figure, axis: Axis, predicted: Mapping[int, Predicted]) -> None:
    """Add hollow points for draft lengths that were not measured."""
    lines = (
        (YIELD, "circle-open", [estimate.tokens_per_pass for estimate in predicted.values()]),
        (
            COST,
            "square-open",
            [estimate.tokens_per_pass / estimate.speedup for estimate in predicted.values()],
        ),
        (SPEEDUP, "diamond-open", [estimate.speedup for estimate in predicted.values()]),
    )
    words = [
        f"draft length {length}, predicted: {one.speedup:.2f}×, {one.tokens_per_pass:.2f} tokens "
        "per pass"
        for length, one in predicted.items()
    ]
    for colour, symbol, numbers in lines:
        figure.add_scatter(
            x=[slot(axis, length) for length in predicted],
            y=numbers,
            hovertext=words,
            hovertemplate="%{hovertext}<extra></extra>",
            mode="lines+markers",
            name="predicted",
            legendgroup="predicted",
            showlegend=colour == SPEEDUP,
            line={"color": colour, "width": 1, "dash": "dot"},
            marker={"symbol": symbol, "size": 8},
        )


def _star(figure: go.Figure, row: CellRow, axes: Sequence[Axis], x: float, y: float) -> None:
    """Mark the cell that was fastest."""
    name = "measured best"
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


def _ticks(axis: Axis) -> dict[str, Any]:
    return {"tickvals": list(range(len(axis.values))), "ticktext": labels(axis)}


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
