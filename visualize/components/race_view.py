"""The race view: several runs of one prompt, replayed together on one clock."""

from __future__ import annotations

from typing import Any

from visualize.components.base import JsonHTML
from visualize.markup import RACE_VIEW


class RaceView(JsonHTML):
    """Value: {seq, race, names, length, status, badge, title, done}, with {lane, from, steps} while
    a lane runs and {lanes: [{name, steps, row}], play?} when one has ended; lanes run in turn."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(value, RACE_VIEW, **more)
