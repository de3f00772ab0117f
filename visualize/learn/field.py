"""The chapters on the field: who guesses, the family of newer methods, batches and experts."""

from __future__ import annotations

from typing import Any

from ouroboros_core.messages import say, table
from ouroboros_core.trace.trace import Step, Trace
from visualize.gallery import runs as gallery
from visualize.learn.pictures import (
    batch_figure,
    depths,
    drafting_cost,
    experts_figure,
    shape_figure,
    sources_figure,
)
from visualize.learn.stops import Chapter, Stop, at, final, first_step, make_chapter, span

SOURCES = {
    "draft": "fibonacci-speculative",
    "head": "fibonacci-eagle2",
    "layers": "fibonacci-draft_verify",
    "text": "stack-prompt_lookup",
    "recycled": "fibonacci-token_recycling",
    "store": "gravity-rest",
    "window": "java-lookahead",
    "pool": "java-ouroboros",
}
"""A recorded run for each source of guesses."""
FAMILY = {
    "heads": "fibonacci-eagle2",
    "mtp": "fibonacci-medusa",
    "block": "fibonacci-parallel_spec",
    "suffix": "river-sam",
    "sampled": "sampled-spectr",
}
"""A recorded run for each relative, in the order of the stops."""
ENOUGH = {"suffix": 5}
"""Accepted tokens of the step that is shown; of the others two."""
BATCH_RUN = "story-speculative-8"
EXPERTS = {"experts": 128, "active": 8}
"""Of a mixture of experts, as an example: experts of a layer, and those that a token uses."""


def sources() -> Chapter:
    """Who guesses: the price of a guess, what it is good for and what it needs."""
    facts: dict[str, Any] = {}
    rows = []
    for key, name in SOURCES.items():
        numbers = gallery.facts(name)
        cost = drafting_cost(name)
        facts |= {f"{key}_cost": cost, f"{key}_length": numbers["length"]}
        facts |= {f"{key}_speedup": numbers["speedup"]}
        label, good, needs = say(f"learn.sources.row.{key}").split("|")
        rows.append([label, f"{cost:.2f}", f"{numbers['length']:.2f}", good, needs, key])
    trace = gallery.trace(SOURCES["draft"])
    stops: list[Stop] = [
        {"at": final(trace), "figure": "sources"},
        {"at": final(trace), "figure": "sources"},
    ]
    head = table()["learn.sources.head"].split("|")
    figures = {"sources": sources_figure(head, rows)}
    return make_chapter("sources", SOURCES["draft"], stops, facts) | {"figures": figures}


def family() -> Chapter:
    """The family today: one recorded step of each relative, and its shape as a small picture."""
    facts: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    stops: list[Stop] = []
    for key, name in FAMILY.items():
        trace = gallery.trace(name)
        step = _telling(trace, ENOUGH.get(key, 2))
        facts |= {
            f"{key}_passes": step.draft_passes,
            f"{key}_checked": len(step.tree) - 1,
            f"{key}_depth": max(depths(step)),
            f"{key}_accepted": len(step.path),
            f"{key}_speedup": gallery.facts(name)["speedup"],
        }
        figures[key] = shape_figure(trace, step)
        moment = {"run": name, "at": at(step, "commit"), "spot": ".ouro-tree", "aside": key}
        stops.append(moment)
    chapter = make_chapter("family", FAMILY["heads"], stops, facts)
    return chapter | {"figures": figures}


def _telling(trace: Trace, accepted: int) -> Step:
    """The first step that accepts enough, of a proposal deeper than one token."""
    return first_step(trace, lambda s: len(s.path) >= accepted and max(depths(s)) > 1)


def batches() -> Chapter:
    """Batches and experts: where rows are not free."""
    trace = gallery.trace(BATCH_RUN)
    one = first_step(trace, lambda s: bool(s.path))
    stops: list[Stop] = [
        {"at": at(one, "commit"), "figure": "batch"},
        {"at": at(one, "commit"), "figure": "experts"},
        {"at": at(one, "commit"), "spot": span(one)},
    ]
    woken = [EXPERTS["experts"] * (1 - (1 - _share()) ** rows) for rows in (5, 64)]
    facts: dict[str, Any] = {**EXPERTS, "few": woken[0], "many": woken[1]}
    figures = {"batch": batch_figure(gallery.facts(BATCH_RUN)["c"])}
    figures |= {"experts": experts_figure(**EXPERTS)}
    return make_chapter("batches", BATCH_RUN, stops, facts) | {"figures": figures}


def _share() -> float:
    return EXPERTS["active"] / EXPERTS["experts"]
