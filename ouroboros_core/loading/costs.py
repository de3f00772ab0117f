"""What passes cost on this machine with this pair: timed once, and kept in the cache folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ouroboros_core.adaptive.cost_model import Costs
from ouroboros_core.adaptive.profiler import measure
from ouroboros_core.environment import Environment
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.loading.measured import file_of, keep, locked, read

LATER, QUICKER = 600.0, 0.75
"""Costs were timed on a busy machine if, at a load so many seconds later, a model's pass over few
rows takes less than this share of what it did then. They are timed anew."""

COSTS = TypeAdapter(Costs)

TIMED = "behind one context"
"""What is timed, a part of the file's name: where that changes this has to, so that costs that were
kept are timed anew."""


def costs_of(
    environment: Environment,
    target: LanguageModel,
    draft: LanguageModel | None,
    head: Drafter | None,
    how: str,
    heads: Mapping[str, Drafter] | None = None,
    agreed: Callable[[Costs | None], Costs | None] | None = None,
) -> Costs:
    """What passes cost, from the cache folder if they were timed before on this machine with this
    pair. Times of a busy machine are taken again.

    how    says which passes compute, so that others are timed anew
    heads  what is trained for the target beside the EAGLE head, by kind
    agreed where several processes compute each pass together: what the first of them has, in all,
           so that all of them time the same passes and decide alike later
    """
    others = [f"{kind} {one.name}" for kind, one in (heads or {}).items()]
    known = (target.name, draft.name if draft else None, head.name if head else None, how)
    file = file_of("", asdict(environment), (*known, *others, TIMED))
    timed = partial(measure, target, draft, head, heads)
    if agreed is not None:
        return _agreed_costs(file, timed, agreed)
    with locked(file):  # processes that share the work must use the same numbers
        kept = _kept(file)
        if kept is not None and not _again(file, kept, timed):
            return kept
        costs = timed()
        keep(file, asdict(costs))
    return costs


def _agreed_costs(
    file: Path, timed: Callable[..., Costs], agreed: Callable[[Costs | None], Costs | None]
) -> Costs:
    """The costs that all processes which share a model go by: those of the first, where it has
    some, and otherwise of passes that all of them make at the same time."""
    kept = agreed(_kept(file))
    if kept is not None:
        return kept
    costs = timed(seconds=float("inf"))
    costs = agreed(costs) or costs
    keep(file, asdict(costs))
    return costs


def _again(file: Path, kept: Costs, timed: Callable[..., Costs]) -> bool:
    """Whether costs are to be timed again: those of a busy machine, once its busy minutes may be
    over."""
    if time.time() - file.stat().st_mtime <= LATER:
        return False
    before = kept.by_kind
    return any(
        now.seconds[0] < QUICKER * before[kind].seconds[0]
        for kind, now in timed(seconds=0.0, counts=1).by_kind.items()
    )


def _kept(file: Path) -> Costs | None:
    """The costs that a file holds; None where there is none, or it holds something else."""
    try:
        return read_costs(read(file))
    except ValueError:
        return None


def read_costs(data: Any) -> Costs:
    """What `costs_of` keeps as JSON; raises ValueError for anything else."""
    return COSTS.validate_python(data)
