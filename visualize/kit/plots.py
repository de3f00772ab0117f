"""Parts of Plotly figures that all features share. The page's theme sets fonts, grid and
background."""

from __future__ import annotations

import html
from pathlib import Path
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

PLAIN = "#6B7280"
INK = "#1F2937"
"""Colour of text, which `plot.js` replaces by the page's own, light or dark."""
LINE = 42
"""Characters of a line that stands where a chart would be: they fit into the narrowest one."""
Figure = dict[str, Any]
"""Data and layout for Plotly."""


def words_only(text: str) -> str:
    """Escape a text of others: Plotly takes some tags for markup."""
    return html.escape(text, quote=False)


def layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the layout that all figures share, with the titles of the axes."""
    return {
        "xaxis": {"title": {"text": x, "standoff": 8}, "zeroline": False, "automargin": True},
        "yaxis": {"title": {"text": y, "standoff": 8}, "rangemode": "tozero", "automargin": True},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.02,
            "x": 0,
            "font": {"size": 12},
            "traceorder": "normal",
        },
        "hovermode": "x unified",
        "bargap": 0.12,
        "uirevision": "keep",
        "template": None,
    } | more


def empty(note: str) -> Figure:
    """Return an empty chart with a note."""
    figure = go.Figure()
    figure.add_annotation(
        text="<br>".join(wrap(note, LINE)),
        xref="paper",
        yref="paper",
        x=0.5,
        y=0.5,
        showarrow=False,
    )
    figure.update_layout(layout("", ""))
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return plain(figure)


def mark_plain(figure: go.Figure, words: str | None = None) -> None:
    """Draw the line y = 1, as fast as plain decoding."""
    line = {"color": PLAIN, "dash": "dot", "width": 1.5}
    figure.add_hline(y=1, line=line, **({"annotation_text": words} if words else {}))


def plain(figure: go.Figure) -> Figure:
    """Data and layout as plain lists and dictionaries."""
    content = figure.to_dict()
    return {"data": list(content["data"]), "layout": content["layout"]}


def write_page(figure: go.Figure, path: Path) -> None:
    """Write a figure as a page that needs nothing else."""
    figure.write_html(path, include_plotlyjs=True)
