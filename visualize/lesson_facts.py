"""Numbers and texts that the lessons take from runs."""

from __future__ import annotations

from typing import Any

from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.trace import Judged, Step, Trace
from visualize import numbers


def pass_facts(wide: Trace, plain: Trace) -> dict[str, float]:
    """Mean rows of a target pass of a run, and what such a pass costs in passes of plain
    decoding."""
    rows = sum(step.width for step in wide.steps) / len(wide.steps)
    alone = sum(step.seconds.verify for step in plain.steps) / len(plain.steps)
    return {
        "rows": rows,
        "pass_cost": sum(step.seconds.verify for step in wide.steps) / len(wide.steps) / alone,
    }


def cost_facts(trace: Trace, plain: Trace) -> dict[str, float]:
    """What a step costs in plain steps, part by part, and draft passes in a step."""
    draft, verify, rest = numbers.parts(trace, plain)
    passes = sum(step.draft_passes for step in trace.steps) / len(trace.steps)
    return {"drafting": draft, "checking": verify, "rest": rest, "passes": passes}


def odds_facts(step: Step) -> dict[str, Any]:
    """The probability that the target gave the first token of a step."""
    judged = step.judged[0]
    return {"chance": judged.target[judged.tokens.index(step.tokens[0])]}


def step_facts(step: Step) -> dict[str, Any]:
    """Of one step: its number as it is shown, rows in the pass, tokens proposed, accepted and
    emitted."""
    checked = len(step.tree) - 1
    accepted = len(step.path)
    return {
        "step": step.index + 1,
        "width": step.width,
        "checked": checked,
        "accepted": accepted,
        "emitted": len(step.tokens),
        "behind": checked - accepted - 1,
    }


def quoted(text: str) -> str:
    """A token's text, its line ends and tabs to be seen."""
    return "‘" + text.replace("\n", "↵").replace("\t", "⇥") + "’"


def refusal_facts(trace: Trace, step: Step, refused: int) -> dict[str, Any]:
    """The guess that was rejected at a node and the token that the target wanted, with what the
    target gives them."""
    judged = next(one for one in step.judged if one.node == step.tree.parents[refused])
    token, own = step.tree.tokens[refused], step.target_token
    assert own is not None
    return {
        "guess": quoted(trace.pieces[token]),
        "target": quoted(trace.pieces[own]),
        "guess_chance": _of(judged, judged.target, token),
        "target_chance": _of(judged, judged.target, own),
    }


def _of(judged: Judged, column: tuple[float, ...], token: int) -> float:
    return column[judged.tokens.index(token)]


def position_facts(trace: Trace) -> dict[str, float]:
    """Shares accepted of the first and of the last guess, of those that were judged."""
    counts = metrics.acceptance_by_position(trace)
    reached = [accepted / tested for tested, accepted in counts if tested]
    return {"first": reached[0], "last": reached[-1], "reached": counts[-1][0] / counts[0][0]}


def residual_facts(judged: Judged) -> dict[str, float]:
    """Of the tokens recorded at a position: how much of p the draft can bring, sum of min(p, q),
    and what is left of p."""
    kept = sum(min(p, q) for p, q in zip(judged.target, judged.draft, strict=True))
    return {"kept": kept, "lacking": sum(judged.target) - kept}


def residual_rows(trace: Trace, judged: Judged) -> list[dict[str, Any]]:
    """For the likeliest tokens: p, q, min(p, q), and the share of the residual scaled up to a
    whole."""
    columns = zip(judged.tokens, judged.target, judged.draft, judged.left, strict=True)
    rows: list[dict[str, Any]] = [
        {"text": trace.pieces[token], "target": p, "draft": q, "kept": min(p, q), "left": left}
        for token, p, q, left in columns
    ]
    return sorted(rows, key=lambda row: -max(row["target"], row["draft"]))[:10]
