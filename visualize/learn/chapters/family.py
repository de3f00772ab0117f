"""The family today: one recorded step of each relative, and its shape as a small picture."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ouroboros_core.trace.trace import Step, Trace
from visualize.gallery import runs as gallery
from visualize.learn.example import EXAMPLE, rule_facts, sibling_draws
from visualize.learn.numbers import CHAIN, layers_read, weight_facts
from visualize.learn.pictures import shape_figure
from visualize.learn.stops import Chapter, Stop, at, first_step, make_chapter

FAMILY = {
    "heads": "fibonacci-eagle3",
    "mtp": "fibonacci-mtp",
    "block": "fibonacci-dspark",
    "suffix": "library-suffix",
    "sampled": "sampled-spectr",
}
"""A recorded run for each relative, in the order of the stops."""
SETTINGS = {"sampled": {"chains": "chains", "gamma": "gamma"}}
"""Settings of a relative's run that the words name, with the names of their facts."""
NOT_SHIPPED = {"fibonacci-mtp"}
"""Runs with a head that is not in the project; it reads the last layer."""
ENOUGH = {"suffix": 5}
"""Accepted tokens of the step that is shown; of the others two."""
SIBLINGS = {"sampled"}
"""Relatives of whose step a later guess for the first position is accepted."""


def chapter() -> Chapter:
    facts: dict[str, Any] = rule_facts() | _sibling_facts()
    layers = int(weight_facts(gallery.trace(CHAIN))["layers"])
    figures: dict[str, Any] = {}
    stops: list[Stop] = []
    for key, name in FAMILY.items():
        trace = gallery.trace(name)
        step = _telling(trace, ENOUGH.get(key, 2), key in SIBLINGS)
        facts |= {
            f"{key}_passes": step.draft_passes,
            f"{key}_checked": len(step.tree) - 1,
            f"{key}_depth": max(step.tree.depths),
            f"{key}_accepted": len(step.path),
            f"{key}_speedup": gallery.facts(name)["speedup"],
        }
        for setting, fact in SETTINGS.get(key, {}).items():
            facts[f"{key}_{fact}"] = trace.hyperparameters[setting]
        read = [layers] if name in NOT_SHIPPED else layers_read(trace.draft or "", layers)
        if len(read) > 1:
            facts[f"{key}_reads"] = f"{', '.join(map(str, read[:-1]))} and {read[-1]}"
        figures[key] = shape_figure(trace, step) | {"layers": layers, "read": read}
        moment = {"run": name, "at": at(step, "commit")}
        if key in SIBLINGS:
            stops.append(moment | {"figure": "siblings"})
        stops.append(moment | {"spot": ".ouro-tree", "aside": key})
    figures["siblings"] = sibling_draws()
    return make_chapter(__name__, FAMILY["heads"], stops, facts, figures=figures)


def _telling(trace: Trace, accepted: int, sibling: bool) -> Step:
    """The first step that accepts enough, of a proposal deeper than one token; with `sibling` its
    first accepted token is not the first one that was tested."""
    return first_step(
        trace,
        lambda s: (
            len(s.path) >= accepted and max(s.tree.depths) > 1 and not (sibling and s.path[0] == 1)
        ),
    )


def _sibling_facts() -> dict[str, int]:
    """The worked example with a second guess: the snows that the target wants and the first guesses
    give, and those that would be kept beyond them if the second guess were tested against p."""
    draws = sibling_draws()
    snow = dict(zip(draws["columns"], draws["rows"][-1], strict=True))
    p, q = EXAMPLE["snow"]
    drawn_without_sun = q / (1 - EXAMPLE["sun"][1])
    assert snow["target wants"] == snow["first kept"]
    beyond = snow["second guess"] * min(Fraction(1), p / drawn_without_sun)
    return {"snow": snow["target wants"], "beyond": int(beyond)}
