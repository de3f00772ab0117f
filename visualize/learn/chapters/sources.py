"""Who guesses: the price of a guess, its use and its needs, by its source."""

from __future__ import annotations

import re
from typing import Any

from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.learn.numbers import baseline, layers_read, weight_facts
from visualize.learn.stops import Chapter, Stop, final, make_chapter

SOURCES = {
    "draft": (
        "fibonacci-speculative",
        "a draft model",
        "any text",
        "a small model with the same vocabulary",
    ),
    "head": ("fibonacci-eagle3", "a head", "any text", "training for this target"),
    "layers": (
        "fibonacci-draft_verify",
        "the target without some layers",
        "any text, if passes are cheap",
        "no other model",
    ),
    "text": ("stack-prompt_lookup", "the text so far", "edits, summaries, code", "nothing"),
    "recycled": (
        "fibonacci-token_recycling",
        "recycled candidates",
        "repetitive texts",
        "a small table in memory",
    ),
    "store": (
        "gravity-rest",
        "a store of other texts",
        "texts like those in it",
        "a corpus in memory",
    ),
    "window": (
        "java-lookahead",
        "the target's window",
        "processors with arithmetic to spare",
        "rows in every pass",
    ),
    "pool": (
        "java-ouroboros",
        "draft model and phrase pool",
        "programs, recurring phrases",
        "a draft model, and a pool in memory",
    ),
}
"""For each source of guesses a recorded run, its name, its use and its needs."""
DRAFTS = ("draft", "head")
"""Sources whose likeliest guesses are compared."""
SIZES = {"M": "million", "B": "billion"}
LARGER = "¹"
"""Marks a source whose run has another target than the chapter's."""
COLUMNS = ["source", "guesses of a step cost", "tokens per pass", "good for", "needs"]


def chapter() -> Chapter:
    shown = SOURCES["draft"][0]
    trace = gallery.trace(shown)
    facts: dict[str, Any] = {}
    rows = []
    for key, (name, label, good, needs) in SOURCES.items():
        run, numbers, cost = gallery.trace(name), gallery.facts(name), _drafting_cost(name)
        facts |= {f"{key}_{fact}": numbers[fact] for fact in ("length", "speedup", "rate")}
        facts |= {f"{key}_cost": cost}
        drafting = sum(step.draft_passes for step in run.steps)
        passes = drafting / len(run.steps)
        if key in DRAFTS:
            rows_read = sum(step.draft_rows for step in run.steps)
            facts |= {f"{key}_c": numbers["c"], f"{key}_rows": rows_read / drafting}
            facts |= {f"{key}_drafting": passes, f"{key}_likeliest": _likeliest_rate(run)}
        price = f"{cost:.2f} for {passes:.1f} passes" if passes else f"{cost:.2f}"
        mark = LARGER if run.target != trace.target else ""
        rows.append([label + mark, price, f"{numbers['length']:.2f}", good, needs])
    weights = weight_facts(trace)
    facts |= {"output": weights["draft_output"], "head_size": _head_size(trace)}
    facts |= {"draft_size": weights["draft_body"] + weights["draft_output"]}
    stops: list[Stop] = [{"at": final(trace), "figure": "sources"} for _ in range(3)]
    targets = [gallery.trace(name).target for name, *_ in SOURCES.values()]
    larger = next(target for target in targets if target != trace.target)
    title = (
        "Recorded runs, on different prompts. A cost is that of all guesses of one step with its "
        "draft passes, in steps of plain decoding. "
        f"{LARGER} With a larger target, of {_size_in_words(larger)} weights."
    )
    table = {"kind": "table", "columns": COLUMNS, "rows": rows, "row_parts": list(SOURCES)}
    figures = {"sources": table | {"title": title}}
    return make_chapter(__name__, shown, stops, facts, figures=figures)


def _drafting_cost(name: str) -> float:
    """Return the mean cost of the guesses of a step, in steps of plain decoding."""
    steps = gallery.trace(name).steps
    alone = metrics.plain_step_seconds(baseline(name))
    return sum(step.seconds.draft for step in steps) / len(steps) / alone


def _likeliest_rate(trace: Trace) -> float:
    """Return the share of the reached positions at which the draft's likeliest guess was accepted;
    other guesses of a tree for the position do not count."""
    hits = []
    for step in trace.steps:
        for judged in step.judged:
            guesses = step.tree.children(judged.node)
            if guesses:
                chances = dict(zip(judged.tokens, judged.draft, strict=True))
                hits.append(max(guesses, key=lambda n: chances[step.tree.tokens[n]]) in step.path)
    return sum(hits) / len(hits)


def _head_size(trace: Trace) -> float:
    """Return the weights of the shipped EAGLE head and its output matrix, in millions: one layer of
    the target's size, and matrices that join its inputs. The run is one with the draft model."""
    weights = weight_facts(trace)
    width = machines.sheets().models[machines.own(trace)[0] or ""].hidden
    head = gallery.trace(SOURCES["head"][0]).draft or ""
    inputs = 1 + len(layers_read(head, int(weights["layers"])))
    joined = inputs * width**2 / 1e6
    return weights["body"] / weights["layers"] + joined + weights["draft_output"]


def _size_in_words(model: str) -> str:
    """Return the parameters in a model's name: '135 million'. Raises ValueError for a name without
    them."""
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)([MB])\b", model)
    if found is None:
        raise ValueError(f"the name of a model here tells its size, as in -135M or -1.5B: {model}")
    return f"{found[1]} {SIZES[found[2]]}"
