"""The race view: several runs of one prompt, replayed together on one clock."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ouroboros_core.trace.summary import Summary
from visualize.gallery import runs as gallery
from visualize.kit import labels as spoken
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import RACE_VIEW
from visualize.run import view as views
from visualize.what_if import view as elsewhere

RECORDED = ("java-autoregressive", "java-speculative", "java-ouroboros", "java-union")
"""Runs of one prompt, the plain one first: the race that is there before anybody asks for one."""


@cache
def _recorded() -> str:
    lanes = []
    for name in RECORDED:
        trace = gallery.paced(name)
        plain = gallery.trace(RECORDED[0])
        lane = views.lane_view(
            spoken.method(trace.method), Summary(trace, plain, rounds=gallery.speedup(name))
        )
        for step in lane["steps"]:
            step.pop("odds", None)  # no lane shows them
        lanes.append(lane | {"modelled": elsewhere.clocks(trace)})
    first = gallery.trace(RECORDED[0])
    told = {
        "seq": 0,
        "race": "recorded",
        "recorded": True,
        "names": [lane["name"] for lane in lanes],
        "length": len(first.tokens),
        "lanes": lanes,
        "badge": views.badge(first),
        "prompt": first.prompt.text,
        "caption": (
            f"Measured on {first.environment.where}, {first.created[:10]}, each lane beside a "
            "plain run that scales its seconds"
        ),
        "status": (
            "A recorded race over one prompt, which suits Ouroboros; averages over many are under "
            "Lab, Results. Press Race to run one here: lanes run one at a time and are then "
            "replayed together."
        ),
        "done": True,
        "play": True,
    }
    return json.dumps(told)


def recorded(_: Any) -> str:
    """What the view asks of the server where no race has run yet: a recorded one, as JSON."""
    return _recorded()


class RaceView(JsonHTML):
    """Value: {seq, race, names, length, status, badge, title or prompt, done}, with {lane, from,
    steps} while a lane runs and {lanes: [{name, steps, row, modelled}], play?} when one has ended;
    lanes run in turn. modelled: by clock the seconds at the end of each step, see
    `elsewhere.clocks`."""

    def __init__(self, value: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(
            value,
            RACE_VIEW,
            clocks=elsewhere.clock_names(),
            looks=views.legend(),
            server_functions=[recorded],
            **more,
        )
