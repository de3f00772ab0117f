"""The race view: several runs of one prompt, replayed together on one clock."""

from __future__ import annotations

from typing import Any

from visualize.components.base import JsonHTML
from visualize.markup import RACE_VIEW


class RaceView(JsonHTML):
    """Value: {seq, race, lanes: [{name, steps, row}], status, badge, title, done, play?}; lanes
    come one after the other."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, RACE_VIEW, **more)
