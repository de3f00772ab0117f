"""Parts of all chapters: a chapter with its words filled in, moments of a run, parts of its
view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ouroboros_core.messages import say, table
from ouroboros_core.trace.trace import Step, Trace

Stop = dict[str, Any]
Chapter = dict[str, Any]

SPEED, LENGTH, SAVED, SAME = (f".ouro-tile:nth-child({n})" for n in (2, 3, 4, 5))
PACE = f"{SPEED}, {LENGTH}"


def first_step(trace: Trace, wanted: Callable[[Step], bool]) -> Step:
    """The first step that shows the subject of a chapter."""
    return next(step for step in trace.steps if wanted(step))


def make_chapter(
    module: str,
    run: str,
    stops: list[Stop],
    facts: dict[str, Any],
    question: dict[str, Any] | None = None,
    **pictures: Any,
) -> Chapter:
    """A chapter with the words of its stops filled in.

    module    of the chapter, whose last name is the chapter's id
    question  asked instead of the one in the words file
    pictures  `figures` by their names, and the chapter's `residual`
    """
    name = module.rpartition(".")[2]
    for number, stop in enumerate(stops, 1):
        stop["words"] = say(f"learn.{name}.{number}", **facts).split("\n")
    title = say(f"learn.{name}.title")
    return {
        "id": name,
        "title": title,
        "run": run,
        "stops": stops,
        "question": question or _choice(name, facts),
        **pictures,
    }


def _choice(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The question of the words file, its options in the order of their keys."""
    prefix = f"learn.{name}.question"
    options = [say(key, **facts) for key in sorted(table()) if key.startswith(f"{prefix}.option")]
    answer = int(table()[f"{prefix}.answer"]) - 1
    words = say(prefix, **facts).split("\n")
    return {
        "kind": "choice",
        "words": words,
        "options": options,
        "answer": answer,
        "why": say(f"{prefix}.why", **facts),
    }


def span(step: Step, more: str = "") -> str:
    return f'.ouro-step[data-step="{step.index}"]{more}'


def at(step: Step, stage: str) -> dict[str, Any]:
    return {"step": step.index, "stage": stage}


def final(trace: Trace) -> dict[str, Any]:
    return at(trace.steps[-1], "commit")


def card(step: Step, node: int | None, stage: str = "commit") -> Stop:
    """A stop with the open card of a node's token; None is the target's own."""
    seen = {"step": step.index, "node": node}
    return {"at": at(step, stage), "card": seen, "spot": ".ouro-card"}
