"""A Plotly chart that is updated in place: no flicker, zoom kept, theme followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
import plotly

from visualize.components.base import JsonHTML, script
from visualize.views import legend

PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
gr.set_static_paths([PLOTLY_JS])


class PlotView(JsonHTML):
    """Value: {seq, run?, figure: {data, layout}}; plotly.js is the one that plotly.py was made for, served by this page."""

    def __init__(
        self, value: dict[str, Any] | None = None, *, label: str, height: int = 280, axis: str | None = None, **more: Any
    ) -> None:
        """axis: what lies on the x axis, 'step', 'token' or 'seconds', where the chart shares the cursor of a run."""
        super().__init__(
            value=value,
            html_template=f'<figure class="ouro-figure"><figcaption>{label}</figcaption>'
            f'<div class="ouro-plot" role="group" aria-label="Chart: {label}" style="height:{height}px"></div></figure>',
            js_on_load=script("dom.js", "plot_view.js"),
            head=f'<script src="gradio_api/file={PLOTLY_JS}"></script>',
            looks=legend(),
            axis=axis,
            apply_default_css=False,
            **more,
        )
