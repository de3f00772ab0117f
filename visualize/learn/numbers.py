"""Numbers and texts that several chapters take from recorded runs, and the names of these runs."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from ouroboros_core.locations import assets
from ouroboros_core.messages import isolated
from ouroboros_core.trace.trace import Judged, Step, Trace
from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.run import diagnosis

GUESSES = 4
"""Draft length of the run that chapters 2 and 3 show."""
SISTERS = "java-speculative"
CHAIN = "fibonacci-speculative"
WIDE = "bank-lookahead"
GRID = tuple(f"palindrome-speculative-{gamma}" for gamma in (1, 2, 4, 6, 8))
"""One prompt, recorded with several draft lengths."""
CARD = "h100"
CARD_COST = 0.3
"""The cost of a draft pass on a card that chapters 9 and 12 assume."""


def baseline(name: str) -> Trace:
    """The plain run of a run's prompt."""
    plain = gallery.baseline(name)
    assert plain is not None, f"{name} has a plain run of the same prompt"
    return plain


def pass_facts(name: str) -> dict[str, float]:
    """Mean rows of a target pass of a run, and what such a pass costs in passes of plain
    decoding."""
    steps, plain = gallery.trace(name).steps, baseline(name).steps
    alone = sum(step.seconds.verify for step in plain) / len(plain)
    return {
        "rows": sum(step.width for step in steps) / len(steps),
        "pass_cost": sum(step.seconds.verify for step in steps) / len(steps) / alone,
    }


def cost_facts(name: str) -> dict[str, float]:
    """Return the cost of a step in plain steps, phase by phase, and its draft passes."""
    trace = gallery.trace(name)
    draft, verify, rest = diagnosis.parts(trace, baseline(name))
    passes = sum(step.draft_passes for step in trace.steps) / len(trace.steps)
    return {"drafting": draft, "checking": verify, "rest": rest, "passes": passes}


def weight_facts(trace: Trace) -> dict[str, float]:
    """Layers of a run's two models, and the weights of their layers and output matrices, in
    millions."""
    target, draft = (
        machines.sheets().models[model_id] for model_id in machines.own(trace) if model_id
    )
    return {
        "layers": target.layers,
        "body": target.body / 1e6,
        "output": target.size.output_parameters / 1e6,
        "draft_layers": draft.layers,
        "draft_body": draft.body / 1e6,
        "draft_output": draft.size.output_parameters / 1e6,
    }


def layers_read(head: str, layers: int) -> list[int]:
    """Return the layers of a target with `layers` layers whose states a shipped head reads; none
    if it is no head."""
    file = assets() / "models" / head / "head.json"
    if not file.exists():
        return []
    return [*json.loads(file.read_text(encoding="utf-8")).get("depths", []), layers]


def card_facts() -> dict[str, Any]:
    """A graphics card and the rows with which it computes as long as it reads a weight of two
    bytes: two operations for each row."""
    card = machines.sheets().machines[CARD].machine
    return {"card": card.name, "card_rows": card.flops / card.bandwidth}


def widest_window(name: str) -> int:
    """Rows of the lookahead window of a run when it is full."""
    return max(len(step.window) for step in gallery.trace(name).steps)


@cache
def bench_rows(file: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of one of the project's benchmarks for methods with their default settings, by
    method and group of prompts."""
    rows = json.loads((assets() / f"{file}.json").read_text(encoding="utf-8"))["rows"]
    return {(row["method"], row["group"]): row for row in rows if not row["setting"]}


def step_facts(step: Step) -> dict[str, Any]:
    """Of one step: its number as it is shown, rows in the pass, tokens proposed, accepted and
    emitted."""
    checked, accepted = len(step.tree) - 1, len(step.path)
    facts = {"step": step.index + 1, "width": step.width, "emitted": len(step.tokens)}
    return facts | {"checked": checked, "accepted": accepted, "behind": checked - accepted - 1}


def quoted(text: str) -> str:
    """Return a token's text with visible line ends, tabs and blanks at its ends, as a tree shows
    it."""
    signs = text.replace("\n", "↵").replace("\t", "⇥")
    return "‘" + isolated(re.sub(r"^ | $", "␣", signs)) + "’"


def chance_of(judged: Judged, token: int) -> float:
    """The target's probability of a token at a position."""
    return judged.target[judged.tokens.index(token)]


def refusal_facts(trace: Trace, step: Step, refused: int) -> dict[str, Any]:
    """Return the rejected guess at a node and the target's token, with the target's
    probabilities."""
    judged = next(one for one in step.judged if one.node == step.tree.parents[refused])
    token, own = step.tree.tokens[refused], step.target_token
    assert own is not None
    return {
        "guess": quoted(trace.pieces[token]),
        "target": quoted(trace.pieces[own]),
        "guess_chance": chance_of(judged, token),
        "target_chance": chance_of(judged, own),
    }
