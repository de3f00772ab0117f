"""The tab Learn: the lessons, and nothing else."""

from __future__ import annotations

from visualize.components.learn_view import LearnView


class LearnPanel:
    """Builds the tab inside an open gr.Blocks."""

    def __init__(self) -> None:
        self.view = LearnView(elem_id="learn-view")
