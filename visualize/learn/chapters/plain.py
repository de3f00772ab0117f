"""Plain decoding: one token per pass, and the cost of a pass over several rows."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.learn.numbers import SISTERS, chance_of, pass_facts
from visualize.learn.pictures import race_figure
from visualize.learn.stops import (
    LENGTH,
    Chapter,
    Stop,
    at,
    card,
    final,
    first_step,
    make_chapter,
    span,
)

BEST = "java-ouroboros"
SURE = 0.8


def chapter() -> Chapter:
    name = "java-autoregressive"
    trace = gallery.trace(name)
    first = first_step(trace, lambda s: _open(trace, s))
    target = machines.own(trace)[0]
    assert target, "the sheet of this model is known"
    sheet = machines.sheets().models[target]
    costs = pass_facts(SISTERS)
    facts: dict[str, Any] = gallery.facts(name) | costs | {"chance": _chance(first)}
    facts |= {"threads": trace.environment.threads, "weights": sheet.size.weight_bytes / 1e9}
    facts |= {"best_speedup": gallery.facts(BEST)["speedup"]}
    stops: list[Stop] = [
        {"at": at(first, "commit"), "figure": "race"},
        {"at": at(first, "commit"), "spot": span(first, " .ouro-token")},
        card(first, None),
        {"at": final(trace), "spot": LENGTH},
        {"at": final(trace), "figure": "pass"},
    ]
    figures = {"pass": _pass_figure(gallery.trace(SISTERS), costs, sheet.layers)}
    figures |= {"race": race_figure([name, BEST], play=True)}
    return make_chapter(__name__, name, stops, facts, figures=figures)


def _chance(step: Step) -> float:
    """The probability that the target gave the first token of a step."""
    return chance_of(step.judged[0], step.tokens[0])


def _open(trace: Trace, step: Step) -> bool:
    """Whether a word could have been another one: the likeliest, and not by far."""
    return trace.pieces[step.tokens[0]].strip().isalpha() and _chance(step) < SURE


def _pass_figure(trace: Trace, costs: dict[str, float], layers: int) -> dict[str, Any]:
    """One pass over the last token and its guesses: {tokens, rows, cost, layers}; the cost of these
    rows is in passes over one row."""
    step = first_step(trace, lambda s: s.width == len(s.tree) > 4)
    tokens = [trace.pieces[token] for token in step.tree.tokens]
    price = {"rows": costs["rows"], "cost": costs["pass_cost"]}
    return {"kind": "pass", "tokens": tokens, "layers": layers} | price
