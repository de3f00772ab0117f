"""A rejected guess: the target's own token takes its place."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace import metrics
from visualize.gallery import runs as gallery
from visualize.learn.numbers import CHAIN, GUESSES, refusal_facts, step_facts
from visualize.learn.pictures import lengths_figure
from visualize.learn.stops import Chapter, Stop, at, card, final, first_step, make_chapter, span


def chapter() -> Chapter:
    trace = gallery.trace(CHAIN)
    step = first_step(
        trace, lambda s: s.index > 0 and s.kind == "correction" and 1 <= len(s.path) < GUESSES - 1
    )
    refused = step.tree.children(step.path[-1])[0]
    counts = metrics.acceptance_by_position(trace)
    facts: dict[str, Any] = gallery.facts(CHAIN) | step_facts(step)
    facts |= refusal_facts(trace, step, refused)
    facts |= {"reached": counts[-1][0] / counts[0][0], "fourth": counts[-1][0]}
    stops: list[Stop] = [
        card(step, refused, "verify"),
        {"at": at(step, "verify"), "spot": '.ouro-tree .ouro-node[data-state="rejected"]'},
        {"at": at(step, "commit"), "spot": span(step, ' [data-kind="correction"]')},
        {"at": final(trace), "spot": ".ouro-numbers", "aside": "positions"},
        {"at": final(trace), "figure": "lengths"},
    ]
    figures = {"lengths": lengths_figure()}
    figures |= {"positions": _positions_figure(counts, len(trace.steps))}
    return make_chapter(__name__, CHAIN, stops, facts, figures=figures)


def _positions_figure(counts: list[tuple[int, int]], steps: int) -> dict[str, Any]:
    """A table of the steps that tested each guess, and of those that accepted it."""
    columns = ["guess", *range(1, len(counts) + 1)]
    tested, accepted = zip(*counts, strict=True)
    return {
        "kind": "table",
        "columns": columns,
        "rows": [["tested", *tested], ["accepted", *accepted]],
        "title": f"Of {steps} steps, those that tested or accepted a guess.",
        "row_parts": ["rate", "rate"],
        "column_parts": [*[""] * (len(columns) - 1), "fourth"],
    }
