"""Parts of all chapters: a chapter with its words filled in, moments of a run, parts of its
view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ouroboros_core.messages import say, table
from ouroboros_core.trace.trace import Step, Trace

Stop = dict[str, Any]
Chapter = dict[str, Any]

TILE = ".ouro-tile:nth-child({})"
SPEED, LENGTH, SAVED, SAME = (TILE.format(n) for n in (2, 3, 4, 5))


def first_step(trace: Trace, wanted: Callable[[Step], bool]) -> Step:
    """The first step that shows the subject of a chapter."""
    return next(step for step in trace.steps if wanted(step))


def make_chapter(
    name: str,
    run: str,
    stops: list[Stop],
    facts: dict[str, Any],
    question: dict[str, Any] | None = None,
) -> Chapter:
    """Words of all stops filled in; the question has its options in the words file, the first key
    being the right one."""
    for number, stop in enumerate(stops, 1):
        stop["words"] = say(f"learn.{name}.{number}", **facts).split("\n")
    title = say(f"learn.{name}.title")
    return {
        "id": name,
        "title": title,
        "run": run,
        "stops": stops,
        "question": question or _choice(name, facts),
    }


def _choice(name: str, facts: dict[str, Any]) -> dict[str, Any]:
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
