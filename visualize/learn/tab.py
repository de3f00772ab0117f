"""The tab Learn: the lessons, and the map of the field below them."""

from __future__ import annotations

import gradio as gr

from visualize.learn.components import LearnView
from visualize.learn.method_map import field_map


class LearnPanel:
    """Builds the tab inside an open gr.Blocks."""

    def __init__(self) -> None:
        self.view = LearnView(elem_id="learn-view")
        gr.HTML(field_map(), elem_id="field-map")
