"""Plotly figures of a benchmark as plain data: speedups of all methods, speedups by group of
prompts, and the cost of a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from ouroboros_core.benchmark.report import Row
from ouroboros_core.sources import LOOKS
from visualize.compare.figures import heat
from visualize.kit.plots import INK, layout, plain, words_only
from visualize.results.data import WORDS, Bar, Benchmark, Family, Over, equality

LOOK = {
    Family.UNION: ("#7C3AED", "✦"),
    Family.HEAD: ("#0891B2", "◉"),
    Family.DRAFT: (LOOKS["draft"].colour, LOOKS["draft"].glyph),
    Family.NONE: ("#B0855B", "▼"),
    Family.PEER: ("#9CA3AF", "✖"),
    Family.ENGINE: ("#C084FC", "✚"),
    Family.PLAIN: (LOOKS["target"].colour, LOOKS["target"].glyph),
}
"""Colour and glyph of a family. Colour is never the only sign; colours of tokens keep their
meaning."""
SHAPES = {
    "✦": "star-diamond",
    "◉": "circle-dot",
    "●": "circle",
    "▼": "triangle-down",
    "✖": "x",
    "✚": "cross",
}
OURS = (Family.UNION, Family.HEAD, Family.DRAFT, Family.NONE)
FEW = 18
"""Rows of a small picture."""
ROW_HEIGHT, AROUND = 27, 110
"""Pixels of a method's row, and of axis and legend."""
SIDES = {
    "middle right": (0.5, 0),
    "middle left": (-0.5, 0),
    "top center": (0, 0.5),
    "bottom center": (0, -0.5),
}
"""Positions of a name beside its mark, as shares of its width and height from the middle."""
PRICE_HEIGHT, INSIDE = 460, ((230, 200), (640, 310), (1230, 330))
"""Pixels of the scatter, and width and height inside its axes on a phone, a tablet and a desk."""
LETTER, LINE = 6.6, 15
"""Pixels of a letter and of a line of a name, slightly too large."""


def height(bars: Sequence[Bar]) -> int:
    """Return the height in pixels at which every row is legible."""
    return ROW_HEIGHT * len(bars) + AROUND


def few(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars of a small picture: plain decoding, other programs, and the fastest methods
    with default settings."""
    ours = [bar for bar in bars if bar.main and bar.family in OURS]
    rest = [bar for bar in bars if bar.main and bar.family not in OURS]
    return sorted([*ours[: FEW - len(rest)], *rest], key=lambda bar: -bar.speedup)


def _families(bars: Sequence[Bar]) -> Iterator[tuple[Family, list[Bar]]]:
    """Yield each family with its bars, except empty families."""
    for family in Family:
        members = [bar for bar in bars if bar.family is family]
        if members:
            yield family, members


def speedups(bars: Sequence[Bar], over: Over) -> dict[str, Any]:
    """Draw a bar for each method, the fastest on top, with its 95% interval."""
    figure = go.Figure()
    for family, members in _families(bars):
        colour, glyph = LOOK[family]
        figure.add_bar(
            orientation="h",
            x=[round(bar.speedup, 3) for bar in members],
            y=[_place(bars, bar) for bar in members],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [round(max(0.0, bar.high - bar.speedup), 3) for bar in members],
                "arrayminus": [round(max(0.0, bar.speedup - bar.low), 3) for bar in members],
                "thickness": 1.5,
                "width": 3,
                "color": INK,
            },
            name=f"{glyph} {family}",
            marker={"color": colour, "line": {"width": 0}},
            width=0.72,
            hovertext=[_hover(bar, over) for bar in members],
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
    figure.add_vline(x=1, layer="above", line={"color": INK, "dash": "dot", "width": 2})
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
    """Draw the speedup of each method on each group of prompts, as colour and as a number."""
    grid, groups = benchmark.grid(bars, over), benchmark.groups
    most = max(2.0, *(value for line in grid for value in line if value is not None))
    names = [_name(bar) for bar in bars]
    titles = [group.replace("_", " ") for group in groups]
    figure = go.Figure()
    figure.add_heatmap(
        x=list(range(len(groups))),
        y=list(range(len(bars))),
        z=[[None if value is None else round(value, 3) for value in line] for line in grid],
        text=[["" if value is None else f"{value:.2f}" for value in line] for line in grid],
        texttemplate="%{text}",
        customdata=[[[name, group] for group in titles] for name in names],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{z:.2f}×<extra></extra>",
        showscale=False,
        **heat(most),
    )
    figure.update_layout(layout("", "", hovermode="closest"))
    figure.update_xaxes(
        tickvals=list(range(len(groups))),
        ticktext=["<br>".join(group.split(" ")) for group in titles],
        side="top",
        tickangle=0,
        range=[-0.5, len(groups) - 0.5],
        showgrid=False,
    )
    _methods_down(figure, bars)
    return plain(figure)


def price(bars: Sequence[Bar], over: Over) -> dict[str, Any]:
    """Draw tokens per pass against checked tokens per written token: the gain and the price.

    The fastest methods have their names, as many as fit."""
    drawn = [bar for bar in bars if bar.row.rows_per_token]
    across, up = _ranges(drawn)
    sides = _named(drawn, across, up)
    figure = go.Figure()
    for family, members in _families(drawn):
        colour, glyph = LOOK[family]
        figure.add_scatter(
            x=[round(bar.row.rows_per_token, 2) for bar in members],
            y=[round(bar.row.tokens_per_pass, 3) for bar in members],
            mode="markers+text",
            text=[_name(bar) if bar.row.method in sides else "" for bar in members],
            textposition=[sides.get(bar.row.method, "middle right") for bar in members],
            textfont={"size": 11},
            cliponaxis=False,
            name=f"{glyph} {family}",
            marker={
                "color": colour,
                "symbol": SHAPES.get(glyph, "circle-open"),
                "size": [_size(bar) for bar in members],
                "line": {"width": 1, "color": "#FFFFFF"},
            },
            hovertext=[_hover(bar, over) for bar in members],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.update_layout(
        layout(
            "tokens checked per token (the price)",
            "tokens per pass (the gain)",
            hovermode="closest",
        )
    )
    figure.update_xaxes(type="log", tickvals=[1, 2, 3, 5, 10, 20, 50], range=across)
    figure.update_yaxes(rangemode=None, range=up)
    return plain(figure)


def _size(bar: Bar) -> float:
    return round(7 + 6 * bar.speedup, 1)


def _ranges(bars: Sequence[Bar]) -> tuple[list[float], list[float]]:
    """Return the ranges of the scatter's axes, with space around the marks; x in log10."""
    most = max((bar.row.rows_per_token for bar in bars), default=1.0)
    high = max((bar.row.tokens_per_pass for bar in bars), default=1.0)
    return [log10(0.7), log10(most * 1.4)], [0.8, high + 0.2]


Box = tuple[float, float, float, float]
"""Left, right, lower and upper edge, in pixels."""


def _named(bars: Sequence[Bar], across: list[float], up: list[float]) -> dict[str, str]:
    """Return the side of the name by method, the fastest first.

    A name covers no other name at any width, and no mark on a wide chart. Settings have no names.
    """

    def mark(bar: Bar, size: tuple[float, float]) -> tuple[float, float]:
        x = (log10(bar.row.rows_per_token) - across[0]) / (across[1] - across[0])
        return size[0] * x, size[1] * (bar.row.tokens_per_pass - up[0]) / (up[1] - up[0])

    def around(bar: Bar, size: tuple[float, float], side: str = "") -> Box:
        """Return the box of the mark, or of its name at a side of it."""
        (x, y), half = mark(bar, size), _size(bar) / 2
        if not side:
            return x - half, x + half, y - half, y + half
        (right, above), wide = SIDES[side], LETTER * len(_name(bar))
        x, y = x + right * (wide + 2 * half), y + above * (LINE + 2 * half)
        return x - wide / 2, x + wide / 2, y - LINE / 2, y + LINE / 2

    marks = [around(bar, INSIDE[-1]) for bar in bars]
    name_boxes: list[list[Box]] = []
    sides: dict[str, str] = {}
    for bar in sorted(bars, key=lambda bar: -bar.speedup):
        for side in SIDES if bar.main else ():
            boxes = [around(bar, size, side) for size in INSIDE]
            fits = all(
                box[0] >= 0 and box[1] <= w for box, (w, _) in zip(boxes, INSIDE, strict=True)
            )
            met = any(
                _meet(*pair) for others in name_boxes for pair in zip(boxes, others, strict=True)
            )
            if fits and not met and not any(_meet(boxes[-1], box) for box in marks):
                name_boxes.append(boxes)
                sides[bar.row.method] = side
                break
    return sides


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _methods_down(figure: go.Figure, bars: Sequence[Bar]) -> None:
    """Show the methods as rows, the first on top."""
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
    name = f"{bar.name}, {bar.setting}" if bar.setting else bar.name
    return words_only(name)


def _tick(bar: Bar) -> str:
    """Return a label that fits beside the bars on a phone: two lines if there are settings."""
    glyph = LOOK[bar.family][1]
    first = f"{words_only(bar.name)} {glyph}"
    return f"{first}<br><sup>{words_only(bar.setting)}</sup>" if bar.setting else first


def _phases(row: Row, over: Over) -> list[str]:
    """Return the speedup of decoding and the seconds of prefill, as far as they are known."""
    decoding = row.decode_speedup if over is Over.PLAIN else row.decode_speedup_hf
    lines = [f"{decoding:.2f}× decoding only"] if decoding else []
    first = row.first_token_seconds
    return [*lines, f"{first:.2f} s to the first token"] if first else lines


def _hover(bar: Bar, over: Over) -> str:
    """Return all numbers of a method."""
    row = bar.row
    lines = [
        f"<b>{_name(bar)}</b>",
        f"{bar.speedup:.2f}× [{bar.low:.2f}, {bar.high:.2f}] over {WORDS[over]}",
        f"{row.tokens_per_pass:.2f} tokens per pass",
        f"{row.rows_per_token:.1f} tokens checked per token written",
        f"{row.tokens_per_second:.1f} tokens/s",
        *_phases(row, over),
        equality(row),
    ]
    if row.setting:
        lines.insert(1, f"fastest of its settings: {words_only(row.setting)}")
    if row.draft_passes_per_token:
        lines.insert(-2, f"{row.draft_passes_per_token:.2f} draft passes per token")
    return "<br>".join(lines)
