"""A Plotly chart that is updated in place: no flicker, zoom kept, theme followed."""

from __future__ import annotations

from typing import Any

import plotly
from fastapi.responses import FileResponse

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import PLOTLY_JS, Markup, safe
from visualize.kit.modules import FOREVER
from visualize.run.view import legend

PLOTLY = f"gradio_api/plotly-{plotly.__version__}.min.js"
"""Where the page has the charts' library, beside its own address. Below gradio_api, because with
SSR, as on Spaces, a server of Gradio's own stands before this one and hands on what it knows."""


def library() -> FileResponse:
    """The charts' library; another version has another address."""
    return FileResponse(PLOTLY_JS, media_type="text/javascript", headers=FOREVER)


def plot_markup(label: str, height: int, *, scrolls: bool = False) -> Markup:
    """Return a chart with a caption, `height` pixels high.

    scrolls  whether the chart keeps the width that it needs, in a box that scrolls
    """
    text = safe(label)
    plot = (
        f'<div class="ouro-plot" translate="no" role="group" aria-label="Chart: {text}" '
        f'data-label="{text}" style="height:{height}px"></div>'
    )
    if scrolls:
        plot = (
            f'<div class="ouro-scroll" tabindex="0" role="group" aria-label="{text}">{plot}</div>'
        )
    return Markup(
        f'<figure class="ouro-figure ouro-box"><figcaption>{text}</figcaption>{plot}</figure>',
        "kit/plot_view.js",
        ("point_select",),
    )


class PlotView(JsonHTML):
    """Value: {seq, run?, figure: {data, layout}}; plotly.js is the one that plotly.py was made for,
    served by this page."""

    def __init__(
        self,
        value: dict[str, Any] | None = None,
        *,
        label: str,
        height: int = 280,
        axis: str | None = None,
        later: dict[str, Any] | None = None,
        scrolls: bool = False,
        **more: Any,
    ) -> None:
        """axis: what lies on the x axis, 'step', 'token' or 'seconds', where the chart shares the
        cursor of a run.

        later: the figure that is shown while a run is under way, where the chart is drawn at its
        end

        scrolls: whether a wide chart scrolls in a box of its own on a narrow screen
        """
        super().__init__(
            value,
            plot_markup(label, height, scrolls=scrolls),
            plotly=PLOTLY,
            looks=legend(),
            axis=axis,
            later=later,
            **more,
        )
