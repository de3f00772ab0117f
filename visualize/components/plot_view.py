"""A Plotly chart that is updated in place: no flicker, zoom kept, theme followed."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ouroboros_core import words
from visualize.components.base import JsonHTML
from visualize.markup import PLOTLY_JS, plot_view
from visualize.views import legend

gr.set_static_paths([PLOTLY_JS])
PLOTLY_HEAD = f'<script src="gradio_api/file={PLOTLY_JS}"></script>'


class PlotView(JsonHTML):
    """Value: {seq, run?, figure: {data, layout}}; plotly.js is the one that plotly.py was made for, served by this page."""

    def __init__(
        self,
        value: dict[str, Any] | None = None,
        *,
        label: str,
        height: int = 280,
        axis: str | None = None,
        later: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """axis: what lies on the x axis, 'step', 'token' or 'seconds', where the chart shares the cursor of a run.

        later: the figure that is shown while a run is under way, where the chart is drawn at its end
        """
        super().__init__(
            value,
            plot_view(label, height),
            head=PLOTLY_HEAD,
            looks=legend(),
            axis=axis,
            later=later,
            words=words.under("plot."),
            **more,
        )
