"""The recorded race: several runs of one prompt, replayed together on one clock."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ouroboros_core.trace.summary import Summary
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.run import view as views
from visualize.what_if import view as what_if_view

RECORDED = ("java-autoregressive", "java-speculative", "java-ouroboros", "java-union")
"""Recorded runs of one prompt, plain decoding first: the race before a visitor starts one."""


@cache
def _recorded() -> str:
    lanes = []
    for name in RECORDED:
        trace = gallery.paced(name)
        plain = gallery.trace(RECORDED[0])
        lane = views.lane_view(
            labels.method(trace.method), Summary(trace, plain, rounds=gallery.speedup(name))
        )
        for step in lane["steps"]:
            step.pop("odds", None)  # no lane shows them
        lanes.append(lane | {"modelled": what_if_view.clocks(trace)})
    first = gallery.trace(RECORDED[0])
    view = {
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
    return json.dumps(view)


def recorded(_: Any) -> str:
    """Return the recorded race as JSON; the view asks for it if no race has run yet."""
    return _recorded()
