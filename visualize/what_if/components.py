"""The component that shows a run on another machine, modelled."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.kit.plot_view import PLOTLY
from visualize.run.view import legend

WHAT_IF_VIEW = markup("what_if/what_if_view", "ask_what_if")


class WhatIfView(JsonHTML):
    """A run on another machine. Triggers `ask_what_if` with {machine, target, draft, batch,
    numbers} when it is visible and shows another run or another choice.

    Value: {seq, models, said, notes, rows, time, batch} or {seq, models, problem}, see
    `visualize.what_if.view`."""

    def __init__(self, choices: dict[str, Any], **options: Any) -> None:
        super().__init__(
            None,
            WHAT_IF_VIEW,
            choices=choices,
            plotly=PLOTLY,
            looks=legend(),
            padding=False,
            **options,
        )
