"""Plotly figures as plain dictionaries, for a browser that has plotly.js but not plotly.py.

It stands in for `plotly.graph_objects`, as far as the charts of a run use it, and makes the same
figures without checks. plotly.py would be 10 MB more to download.
"""

from __future__ import annotations

from typing import Any

Parts = dict[str, Any]


class Figure:
    """Data and layout of a chart."""

    def __init__(self) -> None:
        self.data: list[Parts] = []
        self.layout: Parts = {"template": {}}

    def add_bar(self, **options: Any) -> None:
        self.data.append(_nested(options) | {"type": "bar"})

    def add_heatmap(self, **options: Any) -> None:
        self.data.append(_nested(options) | {"type": "heatmap"})

    def add_scatter(self, **options: Any) -> None:
        self.data.append(_nested(options) | {"type": "scatter"})

    def add_annotation(self, **options: Any) -> None:
        self.layout.setdefault("annotations", []).append(_nested(options))

    def add_hline(self, y: float, line: Parts, annotation_text: str = "") -> None:
        """Add a line over the whole width, with words above its right end."""
        across = {"xref": "x domain", "yref": "y"}
        shape = {"type": "line", "line": line, "x0": 0, "x1": 1, "y0": y, "y1": y}
        self.layout.setdefault("shapes", []).append(shape | across)
        if annotation_text:
            corner = {"x": 1, "y": y, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
            self.add_annotation(text=annotation_text, **corner, **across)

    def update_layout(self, layout: Parts | None = None, **options: Any) -> None:
        _merge(self.layout, (layout or {}) | options)

    def update_xaxes(self, **options: Any) -> None:
        self.update_layout(xaxis=options)

    def update_yaxes(self, **options: Any) -> None:
        self.update_layout(yaxis=options)

    def to_dict(self) -> Parts:
        return {"data": self.data, "layout": self.layout}


def _nested(options: Parts) -> Parts:
    """Return options without None values, at any depth."""
    return {
        name: _nested(value) if isinstance(value, dict) else value
        for name, value in options.items()
        if value is not None
    }


def _merge(parts: Parts, more: Parts) -> None:
    """Put options into others. A group keeps its options that are not named; None empties
    it, and removes an option."""
    for name, value in more.items():
        if isinstance(parts.get(name), dict):
            if value is None:
                parts[name] = {}
            else:
                _merge(parts[name], value)
        elif value is None:
            parts.pop(name, None)
        else:
            parts[name] = _nested(value) if isinstance(value, dict) else value
