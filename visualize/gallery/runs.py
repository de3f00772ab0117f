"""The recorded runs that ship with the project, each with a sentence on it and the data of its
replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.messages import say, table
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Trace
from visualize.run import view as views
from visualize.run.strip import strip

PLAIN = methods.PLAIN
EMBEDDED = "embedded"
FOLDER = assets() / "traces"


@cache
def plan() -> dict[str, Any]:
    """Return the plan of the recordings: pairs, prompts and runs by name."""
    recordings: dict[str, Any] = _read("gallery.json")
    return recordings


@cache
def runs() -> dict[str, dict[str, Any]]:
    """Return prompt, method and settings of every recorded run by name; see `scripts.record`."""
    return {
        name: facts for name, facts in plan()["runs"].items() if (FOLDER / f"{name}.json").exists()
    }


def recorded_prompts() -> set[str]:
    """Return the names of the prompts whose plain run is recorded."""
    return {of["prompt"] for of in runs().values() if of["method"] == PLAIN}


@cache
def measured() -> dict[str, Any]:
    """Return by run its speedups, and the times of plain decoding and passes beside it."""
    measurements: dict[str, Any] = _read("measured.json")
    return measurements


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@cache
def trace(name: str) -> Trace:
    """A recorded run; raises InvalidInput for a name that is none."""
    if name not in runs():
        raise InvalidInput(
            f"there is no recorded run {str(name)[:80]}; there are {', '.join(runs())}"
        )
    return read_trace((FOLDER / f"{name}.json").read_bytes())


def _plain(name: str) -> str | None:
    wanted = runs()[name]["prompt"], PLAIN
    return next((run for run, of in runs().items() if (of["prompt"], of["method"]) == wanted), None)


@cache
def baseline(name: str) -> Trace | None:
    """Return the plain run with the seconds of this round; None for a plain run."""
    plain = _plain(name)
    if plain is None or plain == name:
        return None
    found, taken = trace(plain), measured().get(name, {}).get("plain")
    if taken is None:
        return found
    steps = zip(found.steps, taken, strict=True)
    return replace(
        found, steps=tuple(replace(step, seconds=Seconds(*took)) for step, took in steps)
    )


@cache
def paced(name: str) -> Trace:
    """A recorded run in the seconds of its prompt's plain run, to stand beside other runs of that
    prompt: the machine was not always equally fast, and the plain run that was made beside each
    tells by how much."""
    run, beside = trace(name), baseline(name)
    if beside is None:
        return run
    plain = _plain(name)
    assert plain is not None
    factor = metrics.total_seconds(trace(plain)) / metrics.total_seconds(beside)
    steps = (replace(step, seconds=step.seconds.times(factor)) for step in run.steps)
    return replace(run, steps=tuple(steps))


def speedups(name: str) -> Sequence[float]:
    """Return the speedups of all repeats, the least first; none for a plain run."""
    return tuple(sorted(measured().get(name, {}).get("speedups", ())))


def speedup(name: str) -> Speedup | None:
    """The same with their median and spread; None for a plain run."""
    measured_speedups = speedups(name)
    return Speedup(tuple(measured_speedups)) if measured_speedups else None


def spread(name: str) -> str:
    """Least and largest speedup of the repeats, in brackets; empty for a plain run."""
    found = speedup(name)
    return found.between if found else ""


def of_prompt(prompt: str, method: str) -> str | None:
    """Return the recorded run of a prompt by a method that began cold, in greedy decoding with the
    chat template and without a grammar; None if there is none."""
    return _recorded().get((prompt, method))


def methods_by_prompt() -> dict[str, list[str]]:
    """Return the methods that `of_prompt` has a run of, by prompt."""
    by_prompt: dict[str, list[str]] = {}
    for prompt, method in _recorded():
        by_prompt.setdefault(prompt, []).append(method)
    return by_prompt


@cache
def _recorded() -> dict[tuple[str, str], str]:
    prompts = plan()["prompts"]
    return {
        (prompts[facts["prompt"]]["text"], facts["method"]): name
        for name, facts in runs().items()
        if "after" not in facts and not {"sampling", "grammar"} & prompts[facts["prompt"]].keys()
    }


def pair_of(name: str) -> dict[str, str]:
    """Return `target` and `draft` by Hub id, none if embedded, and further facts."""
    plain = plan()["prompts"][runs()[name]["prompt"]]
    found: dict[str, str] = plan()["pairs"][plain.get("pair", EMBEDDED)]
    return found


@cache
def view(name: str) -> views.View:
    run = trace(name)
    summary = Summary(run, baseline(name), rounds=speedup(name))
    found = views.run_view(summary, run=name, seq=1, badge_text=views.badge(run))
    if each := speedups(name):
        tile, facts = found["tiles"][SPEEDUP], {"slowest": each[0], "fastest": each[-1]}
        tile["note"] += f" {say('gallery.repeats', repeats=len(each), **facts)}"
    return found


SPEEDUP = 1
"""Place of the speedup among the tiles."""


def facts(name: str) -> dict[str, Any]:
    """Numbers of a run, by the names that the gallery's sentences and the lessons use."""
    run = Summary(trace(name), baseline(name))
    found: dict[str, Any] = {
        "tokens": run.tokens,
        "steps": run.steps,
        "length": run.tokens_per_pass,
        "seconds": run.seconds,
        "saved": run.passes_saved,
        "depth": run.proposal_depth,
        "rate": run.acceptance_rate,
        "cost": run.step_cost,
        "c": run.draft_cost,
        "speedup": run.speedup,
    }
    if found["speedup"] is not None:
        found["pace"] = pace(found["speedup"])
    return {key: value for key, value in found.items() if value is not None}


def pace(speedup: float) -> str:
    """Whether a run was faster or slower than plain decoding, in a word."""
    return "slower" if speedup < 1 else "faster"


def entries() -> list[dict[str, Any]]:
    """Return the gallery: name, title, sentence, headline numbers and models of every run."""
    found = []
    for name in runs():
        if f"gallery.{name}" in table():
            numbers = facts(name)
            headline = f"{numbers['tokens']} tokens in {numbers['steps']} forward passes"
            if "speedup" in numbers:
                speed = f"{numbers['speedup']:.2f}× plain decoding {spread(name)}"
                headline += f", {numbers['length']:.2f} tokens per pass, {speed}"
            words, pair = say(f"gallery.{name}", **numbers), pair_of(name)
            found.append(
                {
                    "name": name,
                    "title": say(f"gallery.{name}.title"),
                    "words": words,
                    "numbers": headline,
                    "strip": strip(trace(name)),
                    "pair": say("gallery.pair" if "target" in pair else "gallery.embedded", **pair),
                }
            )
    return found
