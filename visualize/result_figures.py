"""Plotly figures of a benchmark: methods by their speedup, on every group of prompts, and what a
token costs them. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from visualize.figures import PLAIN, layout, plain, words_only
from visualize.results import WORDS, Bar, Benchmark, Family, Over, equality
from visualize.sweep_figures import heat

LOOK = {
    Family.UNION: ("#E69F00", "★"),
    Family.HEAD: ("#CC79A7", "▲"),
    Family.DRAFT: ("#0072B2", "●"),
    Family.NONE: ("#009E73", "◆"),
    Family.PEER: ("#8A8A8A", "■"),
    Family.PLAIN: ("#56B4E9", "○"),
}
"""Colour (Okabe and Ito) and glyph of a family: colour is never the only sign."""
SHAPES = {"★": "star", "▲": "triangle-up", "●": "circle", "◆": "diamond", "■": "square"}
ROW_HEIGHT, AROUND = 27, 110
"""Pixels of a method's row, and of axis and legend."""
ASIDE = {
    Family.UNION: "bottom right",
    Family.HEAD: "top center",
    Family.NONE: "top left",
    Family.PEER: "bottom center",
}
"""Where the name of a family's fastest method stands beside its mark; else below it."""


def height(bars: Sequence[Bar]) -> int:
    """In pixels, so that every row can be read."""
    return ROW_HEIGHT * len(bars) + AROUND


def _families(bars: Sequence[Bar]) -> Iterator[tuple[Family, list[Bar]]]:
    """The families that there are, each with its bars."""
    for family in Family:
        mine = [bar for bar in bars if bar.family is family]
        if mine:
            yield family, mine


def speedups(bars: Sequence[Bar], over: Over) -> dict[str, Any]:
    """A bar for each method, the fastest on top, with its 95% interval."""
    figure = go.Figure()
    for family, mine in _families(bars):
        colour, glyph = LOOK[family]
        figure.add_bar(
            orientation="h",
            x=[round(bar.speedup, 3) for bar in mine],
            y=[_place(bars, bar) for bar in mine],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [round(max(0.0, bar.high - bar.speedup), 3) for bar in mine],
                "arrayminus": [round(max(0.0, bar.speedup - bar.low), 3) for bar in mine],
                "thickness": 1.5,
                "width": 3,
                "color": PLAIN,
            },
            name=f"{glyph} {family}",
            marker={"color": colour, "line": {"width": 0}},
            width=0.72,
            hovertext=[_hover(bar, over) for bar in mine],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.add_scatter(
        x=[bar.high for bar in bars],
        y=[_place(bars, bar) for bar in bars],
        text=[f"  {bar.speedup:.2f}×" for bar in bars],
        mode="text",
        textposition="middle right",
        cliponaxis=False,
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_vline(x=1, line={"color": PLAIN, "dash": "dot", "width": 1.5})
    figure.update_layout(
        layout(
            "speedup",
            "",
            hovermode="closest",
            barmode="overlay",
            margin={"l": 8, "r": 56, "t": 8, "b": 8},
        )
    )
    most = max((bar.high for bar in bars), default=1.0)
    figure.update_xaxes(range=[0, most * 1.02], rangemode=None)
    _methods_down(figure, bars)
    return plain(figure)


def heatmap(benchmark: Benchmark, bars: Sequence[Bar], over: Over) -> dict[str, Any]:
    """The speedup of each method on each group of prompts, as colour and as a number."""
    grid, groups = benchmark.grid(bars, over), benchmark.groups
    most = max(2.0, *(value for line in grid for value in line if value is not None))
    names = [_name(bar) for bar in bars]
    told = [group.replace("_", " ") for group in groups]
    figure = go.Figure()
    figure.add_heatmap(
        x=list(range(len(groups))),
        y=list(range(len(bars))),
        z=[[None if value is None else round(value, 3) for value in line] for line in grid],
        text=[["" if value is None else f"{value:.2f}" for value in line] for line in grid],
        texttemplate="%{text}",
        customdata=[[[name, group] for group in told] for name in names],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{z:.2f}×<extra></extra>",
        showscale=False,
        **heat(most),
    )
    figure.update_layout(layout("", "", hovermode="closest"))
    figure.update_xaxes(
        tickvals=list(range(len(groups))),
        ticktext=["<br>".join(group.split(" ")) for group in told],
        side="top",
        tickangle=0,
        range=[-0.5, len(groups) - 0.5],
        showgrid=False,
    )
    _methods_down(figure, bars)
    return plain(figure)


def price(bars: Sequence[Bar], over: Over) -> dict[str, Any]:
    """Tokens per pass against rows per token: what a method gains and what it pays."""
    shown = [bar for bar in bars if bar.row.rows_per_token]
    figure = go.Figure()
    for family, mine in _families(shown):
        colour, glyph = LOOK[family]
        figure.add_scatter(
            x=[round(bar.row.rows_per_token, 2) for bar in mine],
            y=[round(bar.row.tokens_per_pass, 3) for bar in mine],
            mode="markers+text",
            text=[_name(mine[0]), *[""] * (len(mine) - 1)],
            textposition=ASIDE.get(family, "bottom center"),
            textfont={"size": 11},
            cliponaxis=False,
            name=f"{glyph} {family}",
            marker={
                "color": colour,
                "symbol": SHAPES.get(glyph, "circle-open"),
                "size": [round(7 + 6 * bar.speedup, 1) for bar in mine],
                "line": {"width": 1, "color": "#FFFFFF"},
            },
            hovertext=[_hover(bar, over) for bar in mine],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.update_layout(
        layout("rows per token (the price)", "tokens per pass (the gain)", hovermode="closest")
    )
    most = max((bar.row.rows_per_token for bar in shown), default=1.0)
    figure.update_xaxes(
        type="log", tickvals=[1, 2, 3, 5, 10, 20, 50], range=[log10(0.7), log10(most * 1.4)]
    )
    figure.update_yaxes(rangemode=None)
    return plain(figure)


def _methods_down(figure: go.Figure, bars: Sequence[Bar]) -> None:
    """The methods as rows, the first on top."""
    figure.update_yaxes(
        tickvals=list(range(len(bars))),
        ticktext=[_tick(bar) for bar in bars],
        range=[len(bars) - 0.5, -0.5],
        rangemode=None,
        showgrid=False,
        zeroline=False,
        ticks="",
        tickfont={"size": 12},
    )


def _place(bars: Sequence[Bar], bar: Bar) -> int:
    return bars.index(bar)


def _name(bar: Bar) -> str:
    told = f"{bar.name}, {bar.setting}" if bar.setting else bar.name
    return words_only(told)


def _tick(bar: Bar) -> str:
    """Two lines where there are settings: a label must fit beside the bars on a phone."""
    glyph = LOOK[bar.family][1]
    first = f"{words_only(bar.name)} {glyph}"
    return f"{first}<br><sup>{words_only(bar.setting)}</sup>" if bar.setting else first


def _hover(bar: Bar, over: Over) -> str:
    """Everything about a method."""
    row = bar.row
    lines = [
        f"<b>{_name(bar)}</b>",
        f"{bar.speedup:.2f}× [{bar.low:.2f}, {bar.high:.2f}] over {WORDS[over]}",
        f"{row.tokens_per_pass:.2f} tokens per pass",
        f"{row.rows_per_token:.1f} rows per token",
        f"{row.tokens_per_second:.1f} tokens/s",
        equality(row),
    ]
    if row.setting:
        lines.insert(1, f"fastest of its settings: {words_only(row.setting)}")
    if row.draft_passes_per_token:
        lines.insert(-2, f"{row.draft_passes_per_token:.2f} draft passes per token")
    return "<br>".join(lines)
