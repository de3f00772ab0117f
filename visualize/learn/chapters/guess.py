"""A draft model guesses, and the target checks all guesses in one pass."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from ouroboros_core.messages import say
from ouroboros_core.trace.trace import Step, Trace
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.learn.numbers import (
    CHAIN,
    GRID,
    GUESSES,
    SISTERS,
    chance_of,
    cost_facts,
    layers_read,
    pass_facts,
    quoted,
    step_facts,
    weight_facts,
)
from visualize.learn.pictures import KEY, offered_runs, shape_figure
from visualize.learn.stops import (
    LENGTH,
    PACE,
    SAVED,
    Chapter,
    Stop,
    at,
    final,
    first_step,
    make_chapter,
    span,
)
from visualize.run.diagnosis import shown_ratio

QUIZ = (CHAIN, "story-speculative-8")
"""Runs whose steps a reader guesses at: the chapter's own, and one for who knows that already.
Chapters 2 and 3 are on the first, a program: its guesses are right often enough that one step
accepts all four and the next rejects one."""
YOURSELF = ("sleep-autoregressive", "sleep-eagle3")
"""The text that a reader drafts, and another run of its prompt."""
HEAD = "fibonacci-eagle3"
DRAFTED = ("speculative", "cape", "cascade", "eagle3", "glide", "medusa", "parallel_spec")
"""Methods whose recorded runs are offered."""


def chapter() -> Chapter:
    trace = gallery.trace(CHAIN)
    step = first_step(trace, lambda s: s.kind == "bonus" and len(s.path) == GUESSES)
    costs = pass_facts(CHAIN)
    facts: dict[str, Any] = gallery.facts(CHAIN) | step_facts(step) | weight_facts(trace)
    facts |= {"ratio": shown_ratio(facts["length"], facts["cost"]), "target_name": trace.target}
    facts |= costs | cost_facts(CHAIN) | _grid_facts()
    drafted, verified = at(step, "draft"), at(step, "verify")
    stops: list[Stop] = [
        {"at": drafted, "spot": span(step)},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": verified, "spot": ".ouro-tree .ouro-answer"},
        {"at": at(step, "commit"), "spot": span(step, " .ouro-token")},
        {"at": at(step, "commit"), "spot": f"{LENGTH}, {SAVED}"},
        {"at": at(step, "commit"), "figure": "time"},
        {"at": drafted, "figure": "models"},
        {"at": drafted, "figure": "ids"},
        {"at": drafted, "figure": "head"},
        {
            "run": GRID[0],
            "at": final(gallery.trace(GRID[0])),
            "spot": PACE,
            "aside": "grid",
        },
        {"at": drafted, "figure": "runs"},
        {"at": drafted, "figure": "yourself"},
    ]
    question = {
        "kind": "predict",
        "words": say("learn.guess.question").split("\n"),
        "rounds": [quiz_round for name in QUIZ for quiz_round in _rounds(name)],
        "prompts": {name: gallery.trace(name).prompt.text for name in QUIZ},
        "none": say("learn.guess.none"),
    }
    figures = {"time": _time_figure(facts)}
    figures |= {"runs": offered_runs(CHAIN, DRAFTED), "yourself": _draft_figure(*YOURSELF)}
    figures |= {"grid": _grid_figure(), "models": _models_figure()}
    figures |= {"ids": _numbers_figure(trace, step), "head": _head_figure(facts["layers"])}
    return make_chapter(__name__, CHAIN, stops, facts, question, figures=figures)


def _grid_facts() -> dict[str, Any]:
    """Draft length and passes of both models of the grid's first and last run; the extremes over
    all its runs of a draft pass's cost and of the speedup."""
    facts: dict[str, Any] = {}
    for key, name in (("short", GRID[0]), ("long", GRID[-1])):
        trace = gallery.trace(name)
        facts |= {key: trace.hyperparameters["gamma"], f"{key}_steps": len(trace.steps)}
        facts |= {f"{key}_passes": sum(step.draft_passes for step in trace.steps)}
    runs = [gallery.facts(name) for name in GRID]
    for key in ("c", "speedup"):
        column = [run[key] for run in runs]
        facts |= {f"low_{key}": min(column), f"high_{key}": max(column)}
    return facts


def _time_figure(facts: dict[str, Any]) -> dict[str, Any]:
    """A step to scale, with sliders that begin at what a run has: {values, sliders, note}; r is the
    slope between passes over one row and over the run's mean rows."""
    row = (facts["pass_cost"] - 1) / (facts["rows"] - 1)
    values = {"alpha": facts["rate"], "gamma": GUESSES, "cost": facts["c"], "row": row}
    note = (
        "To scale, by theory, which assumes the same α at every position. It begins with the "
        f"values of this run, which itself yields {facts['length']:.2f} tokens a step. {KEY}"
    )
    rounded = {name: round(value, 2) for name, value in values.items()}
    return {"kind": "time", "values": rounded, "sliders": list(values), "note": note}


def _models_figure() -> dict[str, Any]:
    """A table of the models of two runs: layers, and weights of layers and output matrix."""
    rows: list[list[Any]] = []
    for name in (CHAIN, SISTERS):
        trace = gallery.trace(name)
        weights = weight_facts(trace)
        for model, prefix in ((trace.target, ""), (trace.draft, "draft_")):
            millions = [round(weights[f"{prefix}{part}"]) for part in ("body", "output")]
            label = str(model).split("/")[-1].removesuffix("-Instruct")
            rows.append([label, weights[f"{prefix}layers"], *millions])
    title = (
        "Each target with its draft model below it: this chapter's, and the Java program's. In "
        "millions: the weights of the layers, and those of the output matrix."
    )
    return {
        "kind": "table",
        "quoted": True,
        "columns": ["model", "layers", "weights", "output"],
        "rows": rows,
        "row_parts": ["target", "draft", "larger", "larger"],
        "title": title,
    }


def _numbers_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """A table of a step's guesses: their numbers, and the target's probability of each."""
    rows = []
    for judged, node in zip(step.judged, range(1, len(step.tree)), strict=False):
        token = step.tree.tokens[node]
        rows.append([quoted(trace.pieces[token]), token, f"{chance_of(judged, token):.0%}"])
    columns = ["guess", "number", "target"]
    title = (
        f"The guesses of step {step.index + 1}. Only the numbers are passed on; on the right, the "
        "target's probability of each number."
    )
    return {"kind": "table", "quoted": True, "columns": columns, "rows": rows, "title": title}


def _head_figure(layers: int) -> dict[str, Any]:
    """The shape of the first proposal of a head, and the target's layers that it reads."""
    trace = gallery.trace(HEAD)
    read = {"layers": layers, "read": layers_read(trace.draft or "", layers)}
    return shape_figure(trace, trace.steps[0]) | read


def _grid_figure() -> dict[str, Any]:
    """Runs of one prompt, to change their draft length: {runs: [{gamma, run, last}]}; last, the
    number of the last step."""
    runs = []
    for name in GRID:
        trace = gallery.trace(name)
        gamma, last = trace.hyperparameters["gamma"], trace.steps[-1].index
        runs.append({"gamma": gamma, "run": name, "last": last})
    return {"kind": "grid", "runs": runs}


def _draft_figure(plain: str, rival: str) -> dict[str, Any]:
    """A recorded text to guess at: {prompt, pieces, begun, rival, length}; its first sentence is
    shown, and the mean acceptance length is that of another run of the prompt."""
    trace = gallery.trace(plain)
    pieces = [trace.pieces[token] for token in trace.tokens]
    begun = next(n for n, piece in enumerate(pieces) if ":" in piece) + 1
    return {
        "kind": "draft",
        "prompt": trace.prompt.text,
        "pieces": pieces,
        "begun": begun,
        "rival": labels.method(gallery.trace(rival).method),
        "length": gallery.facts(rival)["length"],
    }


def _rounds(name: str) -> list[dict[str, Any]]:
    """The steps of a run to guess at, in order: {run, step, tokens_before, tokens, accepted, why}.
    The page keeps track of the ones that a reader has seen."""
    trace, found = gallery.trace(name), []
    written = accumulate((len(step.tokens) for step in trace.steps), initial=0)
    for step, before in zip(trace.steps, written, strict=False):
        count, accepted = len(step.tree) - 1, len(step.path)
        if count < GUESSES or step.target_token is None:
            continue
        tokens = [trace.pieces[token] for token in step.tree.tokens[1:]]
        own = trace.pieces[step.target_token]
        if not _of_words(tokens, own, accepted):
            continue
        values = {
            "guess": quoted(tokens[accepted]) if accepted < count else "",
            "target": quoted(own),
            "emitted": len(step.tokens),
        }
        found.append(
            {
                "run": name,
                "step": step.index,
                "tokens_before": before,
                "tokens": tokens,
                "accepted": accepted,
                "why": say(f"learn.guess.{'all' if accepted == count else 'some'}", **values),
            }
        )
    return found


def _of_words(tokens: list[str], own: str, accepted: int) -> bool:
    """Whether a reader can judge a proposal: at least half of it are words, and the guess that was
    rejected and the target's own token are, too."""
    decisive = [] if accepted == len(tokens) else [tokens[accepted], own]
    words = [any(map(str.isalpha, text)) for text in tokens]
    return 2 * sum(words) >= len(words) and all(any(map(str.isalpha, text)) for text in decisive)
