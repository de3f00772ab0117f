"""Plotly figures of a benchmark: methods by their speedup, on every group of prompts, and what a
token costs them. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log10
from typing import Any

import plotly.graph_objects as go

from ouroboros_core import methods
from ouroboros_core.benchmark.report import Row
from ouroboros_core.sources import LOOKS
from visualize.kit.plots import INK, PLAIN, layout, plain, words_only
from visualize.results.data import WORDS, Bar, Benchmark, Family, Over, equality, parts
from visualize.sweep.figures import heat

LOOK = {
    Family.UNION: ("#7C3AED", "✦"),
    Family.HEAD: ("#0891B2", "◉"),
    Family.DRAFT: (LOOKS["draft"].colour, LOOKS["draft"].glyph),
    Family.NONE: ("#B0855B", "▼"),
    Family.PEER: ("#9CA3AF", "✖"),
    Family.ENGINE: ("#C084FC", "✚"),
    Family.PLAIN: (LOOKS["target"].colour, LOOKS["target"].glyph),
}
"""Colour and glyph of a family: colour is never the only sign, and what a class of tokens has
stands for nothing else."""
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
"""Where a name may stand beside its mark, as parts of its own width and height from the middle."""
PRICE_HEIGHT, INSIDE = 460, ((230, 200), (640, 310), (1230, 330))
"""Pixels of the scatter, and what is inside its axes on a phone, a tablet and a desk: width and
height."""
LETTER, LINE = 6.6, 15
"""Pixels of a name in it, a little more than it takes."""


def height(bars: Sequence[Bar]) -> int:
    """In pixels, so that every row can be read."""
    return ROW_HEIGHT * len(bars) + AROUND


def few(bars: Sequence[Bar]) -> list[Bar]:
    """What fits in a small picture: plain decoding, other programs, and the fastest methods with
    their own defaults."""
    own = [bar for bar in bars if bar.main and bar.family in OURS]
    rest = [bar for bar in bars if bar.main and bar.family not in OURS]
    return sorted([*own[: FEW - len(rest)], *rest], key=lambda bar: -bar.speedup)


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
                "color": INK,
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
    """Tokens per pass against tokens checked for each that is written: what a method gains and what
    it pays. As many of the fastest have their names as fit."""
    shown = [bar for bar in bars if bar.row.rows_per_token]
    across, up = _ranges(shown)
    sides = _named(shown, across, up)
    figure = go.Figure()
    for family, mine in _families(shown):
        colour, glyph = LOOK[family]
        figure.add_scatter(
            x=[round(bar.row.rows_per_token, 2) for bar in mine],
            y=[round(bar.row.tokens_per_pass, 3) for bar in mine],
            mode="markers+text",
            text=[_name(bar) if bar.row.method in sides else "" for bar in mine],
            textposition=[sides.get(bar.row.method, "middle right") for bar in mine],
            textfont={"size": 11},
            cliponaxis=False,
            name=f"{glyph} {family}",
            marker={
                "color": colour,
                "symbol": SHAPES.get(glyph, "circle-open"),
                "size": [_size(bar) for bar in mine],
                "line": {"width": 1, "color": "#FFFFFF"},
            },
            hovertext=[_hover(bar, over) for bar in mine],
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
    """Of the axes of the scatter, with some space around the marks; the first one is of logs."""
    most = max((bar.row.rows_per_token for bar in bars), default=1.0)
    high = max((bar.row.tokens_per_pass for bar in bars), default=1.0)
    return [log10(0.7), log10(most * 1.4)], [0.8, high + 0.2]


Box = tuple[float, float, float, float]
"""Left, right, lower and upper edge, in pixels."""


def _named(bars: Sequence[Bar], across: list[float], up: list[float]) -> dict[str, str]:
    """By method, where its name stands: the fastest first, each where it lies over no other name,
    however wide the chart is, and over no mark where it is wide. Settings have no names."""

    def mark(bar: Bar, size: tuple[float, float]) -> tuple[float, float]:
        x = (log10(bar.row.rows_per_token) - across[0]) / (across[1] - across[0])
        return size[0] * x, size[1] * (bar.row.tokens_per_pass - up[0]) / (up[1] - up[0])

    def around(bar: Bar, size: tuple[float, float], side: str = "") -> Box:
        """The mark, or its name at a side of it."""
        (x, y), half = mark(bar, size), _size(bar) / 2
        if not side:
            return x - half, x + half, y - half, y + half
        (right, above), wide = SIDES[side], LETTER * len(_name(bar))
        x, y = x + right * (wide + 2 * half), y + above * (LINE + 2 * half)
        return x - wide / 2, x + wide / 2, y - LINE / 2, y + LINE / 2

    marks = [around(bar, INSIDE[-1]) for bar in bars]
    taken: list[list[Box]] = []
    found: dict[str, str] = {}
    for bar in sorted(bars, key=lambda one: -one.speedup):
        for side in SIDES if bar.main else ():
            boxes = [around(bar, size, side) for size in INSIDE]
            fits = all(
                box[0] >= 0 and box[1] <= w for box, (w, _) in zip(boxes, INSIDE, strict=True)
            )
            met = any(_meet(*pair) for one in taken for pair in zip(boxes, one, strict=True))
            if fits and not met and not any(_meet(boxes[-1], one) for one in marks):
                taken.append(boxes)
                found[bar.row.method] = side
                break
    return found


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def by_gamma(bars: Sequence[Bar]) -> dict[str, Any]:
    """Speculative decoding in the benchmark: its speedup by draft length, and where that is
    'auto', with 95% intervals."""
    known = {length: bar for bar in bars if (length := _draft_length(bar))}
    lengths = sorted(known)
    places = [([str(length) for length in lengths], [known[length] for length in lengths])]
    places += [(["auto"], [bar]) for bar in bars if bar.row.method == "speculative"]
    figure = go.Figure()
    for names, mine in places:
        figure.add_scatter(
            x=names,
            y=[round(bar.speedup, 3) for bar in mine],
            mode="lines+markers+text",
            text=[f"{bar.speedup:.2f}×" for bar in mine],
            textposition=_beside_the_line([bar.speedup for bar in mine]),
            cliponaxis=False,
            line={"color": LOOK[Family.DRAFT][0], "width": 2.5},
            marker={"size": 9},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [round(bar.high - bar.speedup, 3) for bar in mine],
                "arrayminus": [round(bar.speedup - bar.low, 3) for bar in mine],
            },
            hovertext=[_hover(bar, Over.PLAIN) for bar in mine],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.add_hline(y=1, line={"color": PLAIN, "dash": "dot", "width": 1.5})
    shape = layout("draft length (gamma)", "speedup over plain decoding", showlegend=False)
    figure.update_layout({**shape, "hovermode": "closest"})
    figure.update_xaxes(type="category")
    return plain(figure)


def _beside_the_line(heights: Sequence[float]) -> list[str]:
    """Where the label of each point stands: right of it, where the line does not go on; of the
    last, which has the edge of the picture on its right, left of it, where it does not come
    from."""
    rises = [after > before for before, after in pairwise(heights)]
    last = "top left" if not rises or rises[-1] else "bottom left"
    return [*("bottom right" if up else "top right" for up in rises), last]


def _draft_length(bar: Bar) -> int | None:
    """Of speculative decoding where nothing else is set: `speculative[gamma=2]`, or as
    published."""
    name, settings = parts(bar.row.method)
    if name != "speculative":
        return None
    if settings == ["published"]:
        return int(methods.get(name).published["gamma"])
    known = len(settings) == 1 and settings[0].startswith("gamma=")
    return int(settings[0].removeprefix("gamma=")) if known else None


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


def _apart(row: Row, over: Over) -> list[str]:
    """Decoding and prefill, each by itself, as far as they are known."""
    decoding = row.decode_speedup if over is Over.PLAIN else row.decode_speedup_hf
    lines = [f"{decoding:.2f}× decoding only"] if decoding else []
    first = row.first_token_seconds
    return [*lines, f"{first:.2f} s to the first token"] if first else lines


def _hover(bar: Bar, over: Over) -> str:
    """Everything about a method."""
    row = bar.row
    lines = [
        f"<b>{_name(bar)}</b>",
        f"{bar.speedup:.2f}× [{bar.low:.2f}, {bar.high:.2f}] over {WORDS[over]}",
        f"{row.tokens_per_pass:.2f} tokens per pass",
        f"{row.rows_per_token:.1f} tokens checked per token written",
        f"{row.tokens_per_second:.1f} tokens/s",
        *_apart(row, over),
        equality(row),
    ]
    if row.setting:
        lines.insert(1, f"fastest of its settings: {words_only(row.setting)}")
    if row.draft_passes_per_token:
        lines.insert(-2, f"{row.draft_passes_per_token:.2f} draft passes per token")
    return "<br>".join(lines)
