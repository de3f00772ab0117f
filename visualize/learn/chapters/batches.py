"""Batches and experts: where rows are not free."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace import metrics
from visualize.gallery import runs as gallery
from visualize.learn.numbers import CARD_COST, card_facts
from visualize.learn.pictures import KEY
from visualize.learn.stops import Chapter, Stop, at, first_step, make_chapter

BATCH_RUN = "story-speculative-8"
ANSWERS = 256
"""Answers of a large batch, as an example: fewer rows than a card has free, if nothing is
guessed."""
EXPERTS = {"experts": 128, "active": 8}
"""Of a mixture of experts, as an example: experts of a layer, and those that a token uses."""
WAKING_ROWS = (5, 64)
"""Rows of a pass whose woken experts the words compare."""


def chapter() -> Chapter:
    trace = gallery.trace(BATCH_RUN)
    one = first_step(trace, lambda s: bool(s.path))
    stops: list[Stop] = [
        {"at": at(one, "commit"), "figure": "batch", "sliders": {"batch": ANSWERS}},
        {"at": at(one, "commit"), "figure": "experts"},
        {"at": at(one, "commit"), "figure": "batch"},
    ]
    share = EXPERTS["active"] / EXPERTS["experts"]
    woken = [EXPERTS["experts"] * (1 - (1 - share) ** rows) for rows in WAKING_ROWS]
    batch = _batch_figure()
    facts: dict[str, Any] = {**EXPERTS, "few": woken[0], "many": woken[1]}
    facts |= {"few_rows": WAKING_ROWS[0], "many_rows": WAKING_ROWS[1]}
    facts |= {"rows_each": WAKING_ROWS[1] * EXPERTS["active"] / woken[1]}
    facts |= {"free": batch["free"], "gamma": batch["values"]["gamma"], "answers": ANSWERS}
    facts |= {f"batch_{key}": value for key, value in _batch_facts(batch, ANSWERS).items()}
    facts |= {"one_speedup": _batch_facts(batch, 1)["speedup"]}
    figures = {"batch": batch, "experts": {"kind": "experts"} | EXPERTS}
    return make_chapter(__name__, BATCH_RUN, stops, facts, figures=figures)


def _batch_figure() -> dict[str, Any]:
    """A step for many answers at once, in the shape of the one in chapter 2, on a card whose pass
    costs the same up to a number of rows."""
    card = card_facts()
    free = round(card["card_rows"])
    note = (
        f"A calculation, not a measurement: the {free} rows of an {card['card']} cost nothing, "
        f"beyond them the time of a pass grows with its rows. {KEY}"
    )
    values = {"alpha": 0.7, "gamma": 4, "cost": round(CARD_COST, 2), "row": 0.0, "batch": 1}
    sliders = ["alpha", "gamma", "batch"]
    return {"kind": "time", "values": values, "sliders": sliders, "free": free, "note": note}


def _batch_facts(figure: dict[str, Any], answers: int) -> dict[str, float]:
    """Return for a number of answers the rows of the target's pass, its cost in passes of plain
    decoding, and the speedup."""
    values, free = figure["values"], figure["free"]
    rows = answers * (values["gamma"] + 1)
    plain, target = (max(1, count / free) for count in (answers, rows))
    tokens = metrics.expected_tokens(values["alpha"], values["gamma"])
    longer = target / plain
    speedup = tokens / (values["gamma"] * values["cost"] + longer)
    return {"rows": rows, "pass": longer, "speedup": speedup}
