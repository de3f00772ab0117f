"""Sampled text: a test by chance and a draw from the residual leave its distribution unchanged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ouroboros_core.messages import say
from ouroboros_core.trace.trace import Judged, Step, Trace
from visualize.gallery import runs as gallery
from visualize.learn.example import DRAWS, EXAMPLE, rule_facts
from visualize.learn.numbers import SISTERS, baseline, cost_facts, quoted, step_facts
from visualize.learn.stops import (
    PACE,
    SAME,
    Chapter,
    Stop,
    at,
    card,
    final,
    first_step,
    make_chapter,
    span,
)
from visualize.run.diagnosis import shown_ratio

KEYED = "sampled-match"
"""A run whose noise is fixed by position."""
STORY = "story-speculative-8"
UNSURE = (0.3, 0.6)
"""Probability of the target's likeliest token where temperature is shown."""


def chapter() -> Chapter:
    name = "sampled-rejection"
    trace, keyed, greedy = gallery.trace(name), gallery.trace(KEYED), gallery.trace(SISTERS)
    step = first_step(trace, lambda s: s.kind == "correction" and bool(_lost(s)))
    judged = _lost(step)
    assert judged is not None
    trial = judged.trials[-1]
    assert trial.q is not None and step.target_token is not None
    plain = baseline(KEYED)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step)
    facts |= {"p": trial.p, "q": trial.q, "u": trial.u, "keep": min(1.0, trial.p / trial.q)}
    kept = sum(min(p, q) for p, q in zip(judged.target, judged.draft, strict=True))
    facts |= {
        "kept": kept,
        "lacking": 1 - kept,
        "guess": quoted(trace.pieces[step.tree.tokens[trial.node]]),
        "target": quoted(trace.pieces[step.target_token]),
        "equal": sum(a == b for a, b in zip(keyed.tokens, plain.tokens, strict=False)),
        "all": len(plain.tokens),
        "top_p": trace.sampling["top_p"],
        "temperature": trace.sampling["temperature"],
    }
    costs = gallery.facts(KEYED) | cost_facts(KEYED)
    facts |= {f"keyed_{key}": number for key, number in costs.items()}
    facts["keyed_ratio"] = shown_ratio(costs["length"], costs["cost"])
    facts |= rule_facts() | _biased_facts()
    last = {"run": KEYED, "at": final(keyed)}
    stops: list[Stop] = [
        {"run": SISTERS, "at": final(greedy), "spot": SAME},
        *[{"at": at(step, "draft"), "figure": "hundred"} for _ in range(3)],
        card(step, trial.node, "verify"),
        {"at": at(step, "verify"), "spot": span(step), "figure": "residual"},
        {
            "at": at(step, "commit"),
            "spot": span(step, ' [data-kind="correction"]'),
            "figure": "residual",
        },
        last | {"spot": SAME},
        last | {"spot": PACE},
        last | {"figure": "temperature"},
        last | {"spot": SAME},
        last | {"figure": "dice"},
    ]
    words = say("learn.unchanged.residual", **facts)
    residual = {"rows": _residual_rows(trace, judged), "words": words}
    figures = {"hundred": hundred_draws(), "temperature": _temperature_figure()}
    return make_chapter(__name__, name, stops, facts, residual=residual, figures=figures)


def _lost(step: Step) -> Judged | None:
    """The position in a step where its one drawn candidate was rejected, and p and q can both be
    seen."""
    judged = step.judged[-1] if step.judged else None
    if judged is None or len(judged.trials) != 1 or not judged.left or not judged.draft:
        return None
    trial = judged.trials[0]
    return judged if trial.q and 0.02 < trial.p < trial.q and not trial.accepted else None


def _residual_rows(trace: Trace, judged: Judged) -> list[dict[str, Any]]:
    """For the likeliest tokens: p, q, min(p, q), and the share of the residual scaled up to a
    whole."""
    columns = zip(judged.tokens, judged.target, judged.draft, judged.left, strict=True)
    rows: list[dict[str, Any]] = [
        {"text": trace.pieces[token], "target": p, "draft": q, "kept": min(p, q), "left": left}
        for token, p, q, left in columns
    ]
    return sorted(rows, key=lambda row: -max(row["target"], row["draft"]))


def hundred_draws() -> dict[str, Any]:
    """The worked example: of a number of draws by q, the kept ones, and what the rejected ones
    become: {columns, rows: [[token, *counts]], column_parts, title}. Counts, not bars of p and q: a
    reader adds them up."""
    rows: list[list[Any]] = []
    for token, (p, q) in EXAMPLE.items():
        kept, lacking = min(p, q), max(Fraction(0), p - q)
        counts = (p, q, kept, q - kept, lacking, kept + lacking)
        rows.append([token, *(int(DRAWS * count) for count in counts)])
    columns = ["token", "target wants", "guessed", "kept", "rejected", "drawn anew", "in all"]
    parts = [column.replace(" ", "_") for column in columns]
    title = f"{DRAWS} draws of the draft model"
    facts = {"columns": columns, "rows": rows, "column_parts": parts, "title": title}
    return {"kind": "table"} | facts


def _biased_facts() -> dict[str, Any]:
    """The worked example, if rejected guesses were replaced by draws from p itself: the draws anew,
    the share of them that would be sun, the suns in all, and those that the target wants."""
    draws = hundred_draws()
    sun = dict(zip(draws["columns"], draws["rows"][0], strict=True))
    redrawn = sum(row[draws["columns"].index("rejected")] for row in draws["rows"])
    again = sun["target wants"] / DRAWS
    return {
        "redrawn": redrawn,
        "again": again,
        "biased": round(sun["kept"] + redrawn * again),
        "wanted": sun["target wants"],
    }


def _temperature_figure() -> dict[str, Any]:
    """The first position of a greedy run where both models prefer the same token and the target
    is unsure: {rows: [[text, p, q]]}, both at temperature 1."""
    trace = gallery.trace(STORY)
    judged = next(
        one
        for step in trace.steps
        for one in step.judged
        if one.draft
        and UNSURE[0] < max(one.target) < UNSURE[1]
        and one.target.index(max(one.target)) == one.draft.index(max(one.draft))
    )
    columns = zip(judged.tokens, judged.target, judged.draft, strict=True)
    rows = [[trace.pieces[token], p, q] for token, p, q in columns]
    return {"kind": "temperature", "rows": sorted(rows, key=lambda row: -max(row[1:]))}
