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
    """Value: {seq, figure: {data, layout}}; plotly.js is the one that plotly.py was made for, served by this page itself."""

    def __init__(self, value: dict[str, Any] | None = None, *, label: str, height: int = 280, **more: Any) -> None:
        super().__init__(
            value=value,
            html_template=f'<figure class="ouro-figure"><figcaption>{label}</figcaption>'
            f'<div class="ouro-plot" role="group" aria-label="Chart: {label}" style="height:{height}px"></div></figure>',
            js_on_load=script("plot_view.js"),
            head=f'<script src="gradio_api/file={PLOTLY_JS}"></script>',
            looks=legend(),
            apply_default_css=False,
            **more,
        )
