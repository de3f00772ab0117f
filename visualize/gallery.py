"""The recorded runs that ship with the project: what each shows, in a sentence, and what the
browser needs to replay it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.decoding.trace_io import read_trace
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.words import say, table
from visualize import views

PLAIN = "autoregressive"


@cache
def runs() -> dict[str, dict[str, Any]]:
    """What was recorded, by name: prompt, method, settings; see `scripts.record`."""
    found: dict[str, dict[str, Any]] = json.loads(
        (assets() / "traces" / "gallery.json").read_text()
    )["runs"]
    return {
        name: facts
        for name, facts in found.items()
        if (assets() / "traces" / f"{name}.json").exists()
    }


@cache
def trace(name: str) -> Trace:
    """A recorded run; raises InvalidInput for a name that is none."""
    if name not in runs():
        raise InvalidInput(
            f"there is no recorded run {str(name)[:80]}; there are {', '.join(runs())}"
        )
    return read_trace((assets() / "traces" / f"{name}.json").read_bytes())


def baseline(name: str) -> Trace | None:
    """The plain run of the same prompt; None for a plain run."""
    prompt = runs()[name]["prompt"]
    plain = next(
        (
            run
            for run, facts in runs().items()
            if facts["prompt"] == prompt and facts["method"] == PLAIN
        ),
        None,
    )
    return None if plain is None or plain == name else trace(plain)


def first(method: str) -> str | None:
    """The recorded run that is shown of a method before anything was generated; None if there is
    none."""
    return next((name for name, facts in runs().items() if facts["method"] == method), None)


@cache
def view(name: str) -> views.View:
    """What a token view shows of a recorded run."""
    run = trace(name)
    return views.run_view(run, baseline(name), run=name, seq=1, badge_text=views.badge(run))


def facts(name: str) -> dict[str, Any]:
    """Numbers of a run, by the names that the gallery's sentences and the lessons use."""
    run, plain = trace(name), baseline(name)
    rate = metrics.draft_acceptance_rate(run.steps)
    cost = metrics.step_cost(run, plain) if plain else None
    found = {
        "tokens": metrics.new_tokens(run),
        "steps": len(run.steps),
        "length": metrics.mean_acceptance_length(run),
        "seconds": metrics.total_seconds(run),
        "saved": metrics.target_passes_saved(run),
        "depth": metrics.proposal_depth(run),
        "rate": rate,
        "cost": cost,
        "c": metrics.draft_cost(run, plain) if plain else None,
        "speedup": metrics.speedup(run, plain) if plain else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def entries() -> list[dict[str, Any]]:
    """The gallery: name, title, a sentence on what it shows, and headline numbers."""
    found = []
    for name in runs():
        if f"gallery.{name}" in table():
            numbers = facts(name)
            headline = f"{numbers['tokens']} tokens in {numbers['steps']} target passes"
            if "speedup" in numbers:
                speed = f"{numbers['speedup']:.2f}× plain decoding"
                headline += f", {numbers['length']:.2f} a pass, {speed}"
            words = say(f"gallery.{name}", **numbers)
            found.append(
                {
                    "name": name,
                    "title": say(f"gallery.{name}.title"),
                    "words": words,
                    "numbers": headline,
                }
            )
    return found
