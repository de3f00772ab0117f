"""The data of pictures that several chapters show: runs on one clock, measured draft lengths, the
shape of a proposal, and the phrases of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from ouroboros_core import methods
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.learn.numbers import bench_rows

RACE = "The same model and the same machine, all runs as they were recorded."
KEY = "Blue: draft passes. Orange: the target pass. Grey: plain passes for as many tokens."
"""The colours of a step drawn to scale."""

BENCHES = {
    "benchmark": "four layers of SmolLM2-135M",
    "benchmark-qwen": "Qwen2.5-Coder-0.5B for the 1.5B model",
}
"""Benchmarks in which several draft lengths were measured: file and name of the draft."""
KINDS = {
    "code": "code",
    "edit": "edits",
    "summarization": "summaries",
    "rag": "questions on a passage",
    "mt_bench": "conversation",
    "overall": "all kinds",
}
"""Kinds of prompts of the benchmark, by group."""
LENGTHS = ("1", "2", "4", "8")
ENOUGH = 4
"""Prompts of a kind from which draft lengths are offered."""

PHASES = ("prefill", "draft", "verify", "learn", "host")
Gram = tuple[int, ...]


def plain_of(name: str) -> str:
    """The name of the plain run of a run's prompt."""
    prompt = gallery.runs()[name]["prompt"]
    return f"{prompt}-{gallery.PLAIN}"


def race_figure(
    names: Sequence[str], title: str = RACE, axes: Sequence[str] = (), play: bool = False
) -> dict[str, Any]:
    """Recorded runs on one clock, in the seconds of the plain run of their prompt.

    {title, axes, lanes, texts, play}; with axes each run stands beside its plain run, and is chosen
    by prompt, method and draft length.
    """
    every = [*dict.fromkeys(plain_of(name) for name in names), *names] if axes else [*names]
    texts: list[list[str]] = []
    lanes: list[dict[str, Any]] = []
    for name in every:
        trace, facts = gallery.paced(name), gallery.facts(name)
        pieces = [trace.pieces[token] for token in trace.tokens]
        if pieces not in texts:
            texts.append(pieces)
        seconds = {
            phase: sum(getattr(step.seconds, phase) for step in trace.steps) for phase in PHASES
        }
        took = [step.seconds.prefill + step.seconds.decode for step in trace.steps]
        gamma = gallery.runs()[name].get("knobs", {}).get("gamma")
        warm = ", warm" if "after" in gallery.runs()[name] else ""
        label = labels.method(trace.method) + warm
        lane: dict[str, Any] = {
            "label": label,
            "at": [_prompt(name), label, "–" if gamma is None else str(gamma)],
            "seconds": _bar(seconds),
            "text": texts.index(pieces),
            "counts": [len(step.tokens) for step in trace.steps],
            "ends": [round(end, 4) for end in accumulate(took)],
            "passes": facts["steps"],
            "length": facts["length"],
        }
        if "speedup" in facts:
            lane |= {"speedup": facts["speedup"], "between": gallery.spread(name)}
            if axes:
                about = methods.get(trace.method).summary
                lane |= {"plain": every.index(plain_of(name)), "about": about}
        lanes.append(lane)
    facts = {"title": title, "axes": list(axes), "lanes": lanes, "texts": texts, "play": play}
    return {"kind": "race"} | facts


def _prompt(name: str) -> str:
    """The prompt of a run in a few words, as the gallery has it."""
    prompt = gallery.runs()[name]["prompt"]
    title = next(
        entry["title"] for entry in gallery.entries() if entry["name"].split("-")[0] == prompt
    )
    return str(title).split(",")[0]


def _bar(seconds: Mapping[str, float]) -> list[float]:
    """Return the parts of a bar: reading the prompt, draft passes, target passes, the rest."""
    rest = seconds["learn"] + seconds["host"]
    return [round(seconds[phase], 5) for phase in PHASES[:3]] + [round(rest, 5)]


def offered_runs(shown: str, methods: Sequence[str]) -> dict[str, Any]:
    """The greedy recorded runs of some methods to choose from, the chapter's own first."""
    plan = gallery.plan()["prompts"]
    names = [
        name
        for name, facts in gallery.runs().items()
        if facts["method"] in methods and "sampling" not in plan[facts["prompt"]]
    ]
    axes = ("Prompt", "Method", "Draft length γ")
    ordered = sorted(names, key=lambda name: name != shown)
    return race_figure(ordered, "Recorded runs beside plain decoding of the prompt.", axes)


@cache
def lengths_figure() -> dict[str, Any]:
    """Measured draft lengths, by draft and kind of prompt, in the shape of `race_figure` without
    texts: a benchmark keeps none, so bars, passes and speedup change, and no run is shown. The
    seconds are sums over all prompts of a kind; kinds with few prompts are left out."""
    lanes: list[dict[str, Any]] = []
    for file, draft in BENCHES.items():
        rows = bench_rows(file)
        for group, kind in KINDS.items():
            plain, alone = len(lanes), rows[gallery.PLAIN, group]
            if alone["questions"] < ENOUGH:
                continue
            lanes.append(_bench_lane(alone, "Plain decoding", []))
            for gamma in LENGTHS:
                key = f"speculative[gamma={gamma}]"
                if gamma == "4" and (key, group) not in rows:
                    key = "speculative[published]"  # the embedded pair's has this length
                row = rows[key, group]
                low, high = row["ci95"]
                lane = _bench_lane(row, f"γ = {gamma}", [draft, kind, gamma])
                lane |= {"plain": plain, "speedup": row["speedup"], "prompts": row["questions"]}
                lanes.append(lane | {"between": f"(95% interval {low:.2f}–{high:.2f})"})
    title = "Measured in this project's benchmark."
    axes = ["Draft model", "Prompts", "Draft length γ"]
    facts = {"title": title, "axes": axes, "lanes": lanes, "texts": [], "play": False}
    return {"kind": "race"} | facts


def _bench_lane(row: Mapping[str, Any], label: str, at: list[str]) -> dict[str, Any]:
    return {
        "label": label,
        "at": at,
        "seconds": _bar(row["seconds"]),
        "passes": round(row["tokens"] / row["tokens_per_pass"]),
        "length": row["tokens_per_pass"],
    }


def shape_figure(trace: Trace, step: Step) -> dict[str, Any]:
    """The shape of a proposal: {passes, levels, more}; of each position at most three tokens."""
    levels: dict[int, list[str]] = {}
    for node in range(1, len(step.tree)):
        level = levels.setdefault(step.tree.depths[node], [])
        level.append(trace.pieces[step.tree.tokens[node]])
    shown = [level[:3] for level in levels.values()]
    more = any(len(level) > 3 for level in levels.values())
    return {"kind": "shape", "passes": step.draft_passes, "levels": shown, "more": more}


def pool_entry(trace: Trace, phrase: Gram, learned: Learned, step: int | None) -> dict[str, Any]:
    """A phrase of a pool, its key first, learned at a step of the run or in an earlier one."""
    return {
        "key": trace.pieces.get(phrase[0], "?"),
        "text": "".join(trace.pieces[token] for token in phrase[1:]),
        "learned": learned.value,
        "from": -1 if step is None else step,
        "to": None,
        "used": [],
    }


def proposed_phrases(step: Step) -> list[tuple[Gram, list[int]]]:
    """The phrases that a step proposes, each with its key, and its nodes."""
    tree, found = step.tree, []
    inner = set(tree.parents)
    for leaf in range(1, len(tree)):
        if leaf in inner or tree.provenance[leaf].source not in (Source.SUFFIX, Source.PHRASE):
            continue
        nodes = [n for n in tree.path_to(leaf) if tree.provenance[n].learned]
        key = tree.tokens[tree.parents[nodes[0]]]
        found.append(((key, *(tree.tokens[n] for n in nodes)), nodes))
    return found
