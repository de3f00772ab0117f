"""Measured costs of the passes of a pair on this machine, kept in the cache folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from ouroboros_core.adaptive.cost_model import Costs
from ouroboros_core.adaptive.profiler import measure
from ouroboros_core.environment import Environment
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.loading.measured import file_of, keep, locked, read

LATER, QUICKER = 600.0, 0.75
"""Seconds and a share. Costs are timed again if the pair is loaded at least this number of seconds
later, and a model's pass over few rows takes less than this share of its earlier time: the machine
was busy."""

COSTS = TypeAdapter(Costs)

TIMED = "in shares of a plain pass, drafts in 8 bits"
"""The method of timing in the file's name; a new method needs a new text."""


def costs_of(
    environment: Environment,
    target: LanguageModel,
    draft: LanguageModel | None,
    heads: Mapping[str, Drafter],
    passes: str,
) -> Costs:
    """Return the costs of a pair's passes, from the cache folder or newly timed. Costs of a busy
    machine are timed again.

    heads   by kind
    passes  the kind of passes, in words: each kind has its own costs
    """
    names = [f"{kind} {head.name}" for kind, head in heads.items()]
    models = (target.name, draft.name if draft else None, *names)
    file = file_of("", asdict(environment), (*models, passes, TIMED))
    timed = partial(measure, target, draft, heads)
    with locked(file):  # processes that share the work must use the same numbers
        earlier = _read_file(file)
        if earlier is not None and not _is_busy(file, earlier, timed):
            return earlier
        costs = timed()
        keep(file, asdict(costs))
    return costs


def _is_busy(file: Path, earlier: Costs, timed: Callable[..., Costs]) -> bool:
    """Whether earlier costs are of a busy machine, which may be idle now."""
    if time.time() - file.stat().st_mtime <= LATER:
        return False
    before = earlier.by_kind
    return any(
        costs.seconds[0] < QUICKER * before[kind].seconds[0]
        for kind, costs in timed(seconds=0.0, counts=1).by_kind.items()
    )


def _read_file(file: Path) -> Costs | None:
    try:
        return COSTS.validate_python(read(file))
    except ValueError:
        return None
