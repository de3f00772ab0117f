"""A sweep is a benchmark whose entrants are plain decoding and the cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ouroboros_core.benchmark.entrants import MethodEntrant
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.benchmark.runner import Runner
from ouroboros_core.benchmark.store import Settings, Store
from ouroboros_core.loading.pairs import Pair, with_draft
from ouroboros_core.sweeps.grid import TOKENS, Grid


@dataclass(kw_only=True)
class SweepSettings(Settings):
    """Settings that decide a sweep's numbers; `grid` has the axes as they are written."""

    name, records, cuts_loops = "sweep", "points", False

    method: str
    grid: list[str]
    knobs: dict[str, Any]


def open_sweep(
    pair: Pair,
    grid: Grid,
    questions: Sequence[Question],
    repeats: int = 1,
    max_new_tokens: int = TOKENS,
    path: Path | None = None,
    *,
    resume: bool = False,
) -> Runner:
    """Load the drafts of a grid and check that everything can run; raises InvalidInput before any
    work.

    path, resume  JSON file of all runs, and whether to continue it
    """
    settings = SweepSettings.of(
        pair,
        questions,
        grid.sampling,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        method=grid.method,
        grid=[str(axis) for axis in grid.axes],
        knobs=dict(grid.settings),
    )
    store = Store.open(settings, path, resume=resume)
    names = dict.fromkeys(cell.draft for cell in grid.cells)
    pairs = {name: pair if name is None else with_draft(pair, name) for name in names}
    plain = [MethodEntrant(pair, spec) for spec in grid.plain]
    cells = [MethodEntrant(pairs[cell.draft], cell.spec) for cell in grid.cells]
    return Runner(pair, [*plain, *cells], questions, store)


def seconds_left(work: Runner) -> float:
    """Return about how long the remaining runs take, each counted as plain decoding, by the costs
    of the target's passes: a method that works takes less."""
    pair, costs = work.pair, work.pair.costs.target
    chat, new = bool(pair.tokenizer.chat_template), work.settings.max_new_tokens * costs.of(1)
    prompts = (len(pair.encode(question.turns[0], chat=chat)) for *_, question in work.left)
    return len(work.entrants) * sum(costs.of(length) + new for length in prompts)
