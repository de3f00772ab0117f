"""The component that shows a race."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.race.view import recorded
from visualize.run.view import legend
from visualize.what_if.view import clock_names

RACE_VIEW = markup("race/race_view")


class RaceView(JsonHTML):
    """Several runs of one prompt, replayed together on one clock.

    Value: {seq, race, names, length, status, badge, title or prompt, done}, with {lane, from,
    steps} while a lane runs and {lanes: [{name, steps, row, modelled}], play?} when one has ended.
    Lanes run one after the other. modelled: by clock, the seconds at the end of each step, see
    `visualize.what_if.view.clocks`."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(
            value,
            RACE_VIEW,
            clocks=clock_names(),
            looks=legend(),
            server_functions=[recorded],
            **options,
        )
