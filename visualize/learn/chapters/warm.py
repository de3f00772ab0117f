"""A warm start: the phrases of an earlier text are in the pool from the first step on."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import Learned
from visualize.gallery import runs as gallery
from visualize.learn.pictures import Gram, pool_entry, proposed_phrases, race_figure
from visualize.learn.stops import SAME, Chapter, Stop, at, final, make_chapter


def chapter() -> Chapter:
    name, cool = "java-ouroboros-warm", "java-ouroboros"
    trace, cold = gallery.trace(name), gallery.trace(cool)
    assert trace.hyperparameters == cold.hyperparameters, "what is compared differs in its pool"
    facts: dict[str, Any] = _facts(name) | {f"cold_{key}": n for key, n in _facts(cool).items()}
    facts |= {"history": metrics.accepted_by_learned(trace)[Learned.HISTORY]}
    stops: list[Stop] = [
        {"at": at(trace.steps[0], "commit"), "figure": "pools"},
        {"at": final(trace), "spot": '.ouro-token[data-learned="history"]'},
        {"at": final(trace), "figure": "pool"},
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "spot": SAME},
    ]
    figures = {"pool": proposed_pool(trace), "race": race_figure([cool, name])}
    figures |= {"pools": _pools_figure(cold, trace)}
    return make_chapter(__name__, name, stops, facts, figures=figures)


def _facts(name: str) -> dict[str, Any]:
    """Numbers of a run, with its draft passes, the phrases in its pool after the first step, how
    often it was repeated, and its least and largest speedup."""
    steps, speedups = gallery.trace(name).steps, gallery.speedups(name)
    return gallery.facts(name) | {
        "draft_passes": sum(step.draft_passes for step in steps),
        "pool": steps[0].pool_size,
        "repeats": len(speedups),
        "slowest": speedups[0],
        "fastest": speedups[-1],
    }


def _pools_figure(*runs: Trace) -> dict[str, Any]:
    """A table of the phrases in the pools of the cold and the warm run."""
    sizes = [[trace.steps[n].pool_size for n in (0, -1)] for trace in runs]
    columns = ["run", "phrases after the first step", "after the last"]
    rows = [["cold", *sizes[0]], ["warm", *sizes[1]]]
    facts = {"columns": columns, "rows": rows, "row_parts": ["cold", "warm"]}
    return {"kind": "table", "title": "Sizes of the phrase pool."} | facts


def proposed_pool(trace: Trace) -> dict[str, Any]:
    """Of a pool whose phrases were not recorded: the proposed ones, in the shape of
    `phrases.window_pool`. A phrase of history is there from the start."""
    entries: dict[tuple[Gram, Learned, int | None], dict[str, Any]] = {}
    for step in trace.steps:
        for phrase, nodes in proposed_phrases(step):
            origin = step.tree.provenance[nodes[-1]]
            assert origin.learned is not None
            known = (phrase, origin.learned, origin.step)
            entry = entries.setdefault(
                known, pool_entry(trace, phrase, origin.learned, origin.step)
            )
            if set(nodes) & set(step.path):
                entry["used"].append(step.index)
    order = sorted(entries.values(), key=lambda one: one["from"])
    sizes = [step.pool_size or 0 for step in trace.steps]
    return {"kind": "pool", "sizes": sizes, "entries": order, "whole": False}
