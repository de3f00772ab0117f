"""A Plotly chart that is updated in place: it keeps its zoom and follows the theme."""

from __future__ import annotations

from typing import Any

import plotly
from fastapi.responses import FileResponse

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import PLOTLY_JS, Markup, safe
from visualize.kit.modules import FOREVER
from visualize.run.view import legend

PLOTLY = f"gradio_api/plotly-{plotly.__version__}.min.js"
"""The address of the charts' library, beside the page's own address. It is below gradio_api: with
SSR, as on Spaces, another server of Gradio forwards only such addresses."""


def library() -> FileResponse:
    """Answer with the charts' library; another version has another address."""
    return FileResponse(PLOTLY_JS, media_type="text/javascript", headers=FOREVER)


def plot_markup(label: str, height: int) -> Markup:
    """Return a chart with a caption, `height` pixels high."""
    text = safe(label)
    plot = (
        f'<div class="ouro-plot" translate="no" role="group" aria-label="Chart: {text}" '
        f'data-label="{text}" style="height:{height}px"></div>'
    )
    return Markup(
        f'<figure class="ouro-figure ouro-box"><figcaption>{text}</figcaption>{plot}</figure>',
        "kit/plot_view.js",
        ("point_select",),
    )


class PlotView(JsonHTML):
    """Value: {seq, run?, figure: {data, layout}}; this page serves plotly.js."""

    def __init__(
        self,
        value: dict[str, Any] | None = None,
        *,
        label: str,
        height: int = 280,
        axis: str | None = None,
        later: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """axis   the unit of the x axis, 'step', 'token' or 'seconds', if the chart shares the
               cursor of a run
        later  the figure during a run, if the chart is drawn at its end
        """
        super().__init__(
            value,
            plot_markup(label, height),
            plotly=PLOTLY,
            looks=legend(),
            axis=axis,
            later=later,
            **options,
        )
