"""The two charts under the text of a run: tokens of each step, and tokens against time. The browser
adds the steps of a run under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go

from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.trace import Step, Trace
from visualize.kit.plots import INK, PLAIN, Figure, layout, plain


def acceptance_length(steps: Sequence[Step]) -> Figure:
    """Tokens each step emitted, stacked by who wrote them, in the order of the text: the target's
    own are the last. A step has no entry for a source of none of its tokens."""
    counts = [Counter(step.looks) for step in steps]
    figure = go.Figure()
    for look in sorted(
        LOOKS.values(), key=lambda look: look.key in ("correction", "bonus", "target")
    ):
        figure.add_bar(
            x=[step.index + 1 for step in steps],
            y=[count[look.key] or None for count in counts],
            name=f"{look.glyph} {look.label}",
            marker={"color": look.colour, "line": {"width": 0}},
            meta={"look": look.key},
        )
    options = {"barmode": "stack", "showlegend": False, "dragmode": False, "hovermode": False}
    figure.update_layout(layout("", "tokens", **options))
    figure.add_hline(y=1, line={"color": PLAIN, "dash": "dot", "width": 1.5})
    _steady(figure, bottom=22)
    figure.update_xaxes(tickformat="d", title=None)
    figure.update_yaxes(tickformat="d", nticks=4)
    return plain(figure)


def tokens_against_time(trace: Trace | None, baseline: Trace | None) -> Figure:
    """Tokens against seconds, prefill included, of a run and of plain decoding; without a trace, of
    a run that has no step yet."""
    figure = go.Figure()
    runs = ((trace, "this run", INK, "solid"), (baseline, "plain decoding", PLAIN, "dot"))
    for run, label, colour, dash in runs:
        seconds, tokens = _staircase(run) if run is not None else ([], [])
        figure.add_scatter(
            x=seconds,
            y=tokens,
            name=label,
            mode="lines",
            line={"shape": "hv", "color": colour, "width": 2.5, "dash": dash},
            hovertemplate=f"{label}: %{{y}} tokens<extra></extra>",
        )
    corner = {"x": 1, "xanchor": "right", "y": 0, "yanchor": "bottom", "font": {"size": 12}}
    figure.update_layout(layout("", "tokens", dragmode=False, legend=corner))
    _steady(figure, bottom=22)
    figure.update_xaxes(
        title=None,
        ticksuffix=" s",
        rangemode="tozero",
        unifiedhovertitle={"text": "after %{x:.2f} s"},
    )
    figure.update_yaxes(tickformat="d", nticks=4)
    return plain(figure)


def _staircase(trace: Trace) -> tuple[list[float], list[int]]:
    """Seconds and tokens there, one point per step, beginning at the end of prefill with none."""
    seconds, tokens = [sum(step.seconds.prefill for step in trace.steps)], [0]
    for step in trace.steps:
        seconds.append(seconds[-1] + step.seconds.decode)
        tokens.append(tokens[-1] + len(step.tokens))
    return seconds, tokens


def _steady(figure: go.Figure, bottom: int) -> None:
    """Give a chart that is drawn again during its run margins in pixels: Plotly measures no label
    then."""
    small = {"font": {"size": 12}}
    axis = {"fixedrange": True, "automargin": False, "ticklabeloverflow": "allow", "title": small}
    figure.update_layout(margin={"l": 54, "b": bottom}, xaxis=axis, yaxis=axis)
