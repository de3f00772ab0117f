"""Plotly figures of a benchmark as plain data: speedups by method, and by draft length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

from ouroboros_core.benchmark.report import Row
from ouroboros_core.sources import LOOKS
from visualize.kit.plots import INK, layout, plain, words_only
from visualize.results.data import WORDS, Bar, Family, Over, equality

LOOK = {
    Family.UNION: ("#7C3AED", "✦"),
    Family.HEAD: ("#0891B2", "◉"),
    Family.DRAFT: (LOOKS["draft"].colour, LOOKS["draft"].glyph),
    Family.NONE: ("#B0855B", "▼"),
    Family.PEER: ("#9CA3AF", "▷"),
    Family.ENGINE: ("#C084FC", "✚"),
    Family.PLAIN: (LOOKS["target"].colour, LOOKS["target"].glyph),
}
"""Colour and glyph of a family; colours of tokens keep their meaning."""
OURS = (Family.UNION, Family.HEAD, Family.DRAFT, Family.NONE)
FEW = 10
"""Rows of the chart."""
ROW_HEIGHT, AROUND = 27, 110
"""Pixels of a method's row, and of axis and legend."""


def height(bars: Sequence[Bar]) -> int:
    """Return the height in pixels at which every row is legible."""
    return ROW_HEIGHT * len(bars) + AROUND


def few(bars: Sequence[Bar]) -> list[Bar]:
    """Return plain decoding, the fastest of other programs, and the fastest by default."""
    main = [bar for bar in bars if bar.main]
    rest = {bar.family: bar for bar in reversed(main) if bar.family not in OURS}.values()
    ours = [bar for bar in main if bar.family in OURS][: FEW - len(rest)]
    return sorted([*ours, *rest], key=lambda bar: -bar.speedup)


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
            y=[bars.index(bar) for bar in members],
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
        y=list(range(len(bars))),
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


def page(bars: Sequence[Bar], note: str) -> go.Figure:
    """Draw speedups over plain decoding as a picture that stands alone."""
    figure = go.Figure(speedups(bars, Over.PLAIN))
    title = {"text": note, "font": {"size": 13}, "y": 0.98, "yanchor": "top"}
    margin = {"l": 16, "r": 60, "t": 90, "b": 16}
    figure.update_layout(
        template="plotly_white", title=title, margin=margin, height=height(bars) + 90
    )
    figure.update_xaxes(title="speedup over plain decoding")
    return figure


def _methods_down(figure: go.Figure, bars: Sequence[Bar]) -> None:
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
    row = bar.row
    lines = [
        f"<b>{words_only(', '.join(filter(None, (bar.name, bar.setting))))}</b>",
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
