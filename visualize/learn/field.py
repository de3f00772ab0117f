"""The chapters on the field: who guesses, the family of newer methods, batches and experts."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace.trace import Step, Trace
from visualize.gallery import runs as gallery
from visualize.learn.facts import (
    CARD_COST,
    card_facts,
    head_size,
    layers_read,
    likeliest_rate,
    rule_facts,
    sibling_draws,
    sibling_facts,
    size_in_words,
    weight_facts,
)
from visualize.learn.pictures import (
    batch_facts,
    batch_figure,
    depths,
    drafting_cost,
    shape_figure,
    sources_figure,
)
from visualize.learn.stops import Chapter, Stop, at, final, first_step, make_chapter

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
LARGER = "¹"
"""Marks a source whose run has another target than the chapter's."""
HEAD = ["source", "guesses of a step cost", "tokens per pass", "good for", "needs"]
FAMILY = {
    "heads": "fibonacci-eagle3",
    "mtp": "fibonacci-medusa",
    "block": "fibonacci-dspark",
    "suffix": "library-suffix",
    "sampled": "sampled-spectr",
}
"""A recorded run for each relative, in the order of the stops."""
SETTINGS = {
    "mtp": {"tree_depth": "heads"},
    "sampled": {"chains": "chains", "gamma": "gamma"},
}
"""Settings of a relative's run that the words name, with the names of their facts."""
ENOUGH = {"suffix": 5}
"""Accepted tokens of the step that is shown; of the others two."""
SIBLINGS = {"sampled"}
"""Relatives of whose step a later guess for the first position is accepted."""
BATCH_RUN = "story-speculative-8"
ANSWERS = 256
"""Answers of a large batch, as an example: fewer rows than a card has free, if nothing is
guessed."""
EXPERTS = {"experts": 128, "active": 8}
"""Of a mixture of experts, as an example: experts of a layer, and those that a token uses."""
WAKING_ROWS = (5, 64)
"""Rows of a pass whose woken experts the words compare."""


def sources() -> Chapter:
    """Who guesses: the price of a guess, its use and its needs."""
    shown = SOURCES["draft"][0]
    trace = gallery.trace(shown)
    facts: dict[str, Any] = {}
    rows = []
    for key, (name, label, good, needs) in SOURCES.items():
        numbers = gallery.facts(name)
        cost = drafting_cost(name)
        facts |= {f"{key}_cost": cost, f"{key}_length": numbers["length"]}
        facts |= {f"{key}_speedup": numbers["speedup"], f"{key}_rate": numbers["rate"]}
        run = gallery.trace(name)
        drafting = sum(step.draft_passes for step in run.steps)
        if key in DRAFTS:
            rows_read = sum(step.draft_rows for step in run.steps)
            facts |= {f"{key}_c": numbers["c"], f"{key}_rows": rows_read / drafting}
            facts |= {f"{key}_drafting": drafting / len(run.steps)}
        passes = drafting / len(run.steps)
        price = f"{cost:.2f} for {passes:.1f} passes" if passes else f"{cost:.2f}"
        mark = LARGER if run.target != trace.target else ""
        rows.append([label + mark, price, f"{numbers['length']:.2f}", good, needs, key])
    facts |= {f"{key}_likeliest": likeliest_rate(gallery.trace(SOURCES[key][0])) for key in DRAFTS}
    weights = weight_facts(trace)
    head = gallery.trace(SOURCES["head"][0]).draft or ""
    facts |= {"output": weights["draft_output"], "head_size": head_size(head, trace)}
    facts |= {"draft_size": weights["draft_body"] + weights["draft_output"]}
    larger = next(target for target in map(_target, SOURCES) if target != trace.target)
    stops: list[Stop] = [{"at": final(trace), "figure": "sources"} for _ in range(3)]
    note = f"{LARGER} With a larger target, of {size_in_words(larger)} weights."
    figures = {"sources": sources_figure(HEAD, rows, note)}
    return make_chapter("sources", shown, stops, facts) | {"figures": figures}


def _target(source: str) -> str:
    return gallery.trace(SOURCES[source][0]).target


def family() -> Chapter:
    """The family today: one recorded step of each relative, and its shape as a small picture."""
    facts: dict[str, Any] = rule_facts() | sibling_facts()
    layers = int(weight_facts(gallery.trace(SOURCES["draft"][0]))["layers"])
    figures: dict[str, Any] = {}
    stops: list[Stop] = []
    for key, name in FAMILY.items():
        trace = gallery.trace(name)
        step = _telling(trace, ENOUGH.get(key, 2), key in SIBLINGS)
        facts |= {
            f"{key}_passes": step.draft_passes,
            f"{key}_checked": len(step.tree) - 1,
            f"{key}_depth": max(depths(step)),
            f"{key}_accepted": len(step.path),
            f"{key}_speedup": gallery.facts(name)["speedup"],
        }
        for setting, fact in SETTINGS.get(key, {}).items():
            facts[f"{key}_{fact}"] = trace.hyperparameters[setting]
        read = layers_read(trace.draft or "", layers)
        if len(read) > 1:
            facts[f"{key}_reads"] = f"{', '.join(map(str, read[:-1]))} and {read[-1]}"
        figures[key] = shape_figure(trace, step) | {"layers": layers, "read": read}
        moment = {"run": name, "at": at(step, "commit")}
        if key in SIBLINGS:
            stops.append(moment | {"figure": "siblings"})
        stops.append(moment | {"spot": ".ouro-tree", "aside": key})
    figures["siblings"] = sibling_draws()
    chapter = make_chapter("family", FAMILY["heads"], stops, facts)
    return chapter | {"figures": figures}


def _telling(trace: Trace, accepted: int, sibling: bool) -> Step:
    """The first step that accepts enough, of a proposal deeper than one token; with `sibling` its
    first accepted token is not the first one that was tested."""
    return first_step(
        trace,
        lambda s: (
            len(s.path) >= accepted and max(depths(s)) > 1 and not (sibling and s.path[0] == 1)
        ),
    )


def batches() -> Chapter:
    """Batches and experts: where rows are not free."""
    trace, card = gallery.trace(BATCH_RUN), card_facts()
    one = first_step(trace, lambda s: bool(s.path))
    stops: list[Stop] = [
        {"at": at(one, "commit"), "figure": "batch", "sliders": {"batch": ANSWERS}},
        {"at": at(one, "commit"), "figure": "experts"},
        {"at": at(one, "commit"), "figure": "batch"},
    ]
    share = EXPERTS["active"] / EXPERTS["experts"]
    woken = [EXPERTS["experts"] * (1 - (1 - share) ** rows) for rows in WAKING_ROWS]
    batch = batch_figure(CARD_COST, card["card"], card["card_rows"])
    facts: dict[str, Any] = {**EXPERTS, "few": woken[0], "many": woken[1]}
    facts |= {"few_rows": WAKING_ROWS[0], "many_rows": WAKING_ROWS[1]}
    facts |= {"rows_each": WAKING_ROWS[1] * EXPERTS["active"] / woken[1]}
    facts |= {"free": batch["free"], "gamma": batch["values"]["gamma"], "answers": ANSWERS}
    facts |= {f"batch_{key}": value for key, value in batch_facts(batch, ANSWERS).items()}
    facts |= {"one_speedup": batch_facts(batch, 1)["speedup"]}
    figures = {"batch": batch, "experts": {"kind": "experts"} | EXPERTS}
    return make_chapter("batches", BATCH_RUN, stops, facts) | {"figures": figures}
