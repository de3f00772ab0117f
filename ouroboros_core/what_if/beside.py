"""Seconds of passes that are timed beside a run: `make traces` records them, and a recorded run is
priced with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from statistics import mean, median
from typing import Any

from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.adaptive.profiler import in_turn, level_of, pass_of
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if.estimate import by_head, skipping, work_of

TIMED, DRAFT_TIMED, STEPS = 8, 24, 24
"""Timed passes of target and draft by rows, and steps in which both alternate."""


@dataclass(frozen=True)
class PassesBeside(PassCosts):
    """Costs of passes in the minute of a run.

    behind  for a draft: seconds by which a target pass takes longer after draft passes
    """

    behind: float = 0.0


Timed = dict[str, PassesBeside]
"""Costs of the passes of `target` and `draft`."""
TimePass = Callable[[], float]
"""Runs a pass and returns its seconds."""


class PassClock:
    """Adds up the seconds of the passes of a pair's drafters, which a trace does not have."""

    PASSES = "evaluate", "extend", "superpose"

    def __init__(self, pair: Pair) -> None:
        drafters = pair.draft, pair.self_draft, *pair.heads.values()
        self._drafters = [model for model in drafters if model is not None]
        self._inside = False
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time every pass in the block."""
        models = ((model, name) for model in self._drafters for name in self.PASSES)
        timed = [(model, name) for model, name in models if hasattr(model, name)]
        for model, name in timed:
            setattr(model, name, self._timed(getattr(model, name)))
        try:
            yield
        finally:
            for model, name in timed:
                delattr(model, name)

    def _timed(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        def run(*args: Any) -> Any:
            if self._inside:  # one kind of pass uses another
                return compute(*args)
            self._inside, start = True, time.perf_counter()
            try:
                result = compute(*args)
                if torch.cuda.is_available():  # a pass returns there before it is computed
                    torch.cuda.synchronize()
                return result
            finally:
                self.seconds += time.perf_counter() - start
                self._inside = False

        return run


def proposing(trace: Trace, pass_seconds: float) -> float:
    """Return the seconds of proposing without draft passes and without random draws."""
    steps = (step.seconds for step in trace.steps if step.draft_passes)
    return sum(seconds.draft - seconds.draft_sampling for seconds in steps) - pass_seconds


def costs_beside(pair: Pair, trace: Trace) -> Timed:
    """Time passes over the numbers of rows of a run, behind a context as long as in its middle."""
    work = work_of(trace)
    length = round(median(step.context for step in work))
    rows = {1, *(round(step.rows) for step in work if step.rows)}
    costs = {"target": _timed(rows, lambda count: pass_of(pair.target, count, length), TIMED)}
    drafting = [step.draft_rows for step in work if step.draft_passes]
    if drafting and not skipping(trace):
        largest, time_draft = ceil(max(drafting)), _draft_pass_of(pair, trace)
        counts = {largest, *(count for count in (1, 2, 4, 8, 16) if count < largest)}
        pass_of(pair.target, 1, length)()  # a head reads the target's features of the context
        passes = round(median(step.draft_passes for step in work if step.draft_passes))
        check = pass_of(pair.target, round(median(step.rows for step in work)), length)
        draft = _timed(counts, lambda count: time_draft(count, length), DRAFT_TIMED)
        slower, behind = _alternating(check, time_draft(1, length), passes)
        seconds = tuple(round(slower * value, 6) for value in draft.seconds)
        costs["draft"] = replace(draft, seconds=seconds, behind=behind)
    return costs


def _alternating(check: TimePass, draft: TimePass, passes: int) -> tuple[float, float]:
    """Return the factor by which draft passes are slower after a target pass, and the seconds by
    which a target pass is slower after `passes` draft passes: each model drives the weights of the
    other one out of the processor's caches."""

    def step() -> tuple[float, float]:
        check()
        return sum(draft() for _ in range(passes)), check()

    steps = [step() for _ in range(STEPS)]
    checks = [check() for _ in range(STEPS + 1)][1:]
    drafts = [draft() for _ in range(DRAFT_TIMED + 1)][1:]
    draft_seconds, check_seconds = (median(step[model] for step in steps) for model in (0, 1))
    slower = max(1.0, draft_seconds / (passes * median(drafts)))
    return slower, round(max(0.0, check_seconds - median(checks)), 6)


def _timed(
    rows: Collection[int], time_pass: Callable[[int], TimePass], repeats: int
) -> PassesBeside:
    counts = sorted(rows)
    seconds = in_turn([time_pass(count) for count in counts], repeats, inf)
    return PassesBeside(tuple(counts), tuple(round(median(values), 6) for values in seconds))


def _draft_pass_of(pair: Pair, trace: Trace) -> Callable[[int, int], TimePass]:
    """Return the timer of a pass of the run's drafter, by its rows and the tokens before them."""
    if not by_head(trace):
        assert pair.draft is not None
        return partial(pass_of, pair.draft)
    return partial(level_of, next(h for h in pair.heads.values() if h.name == trace.draft))


def between(before: Timed, after: Timed) -> Timed:
    return {
        model: PassesBeside(
            costs.rows,
            tuple(
                round(mean(pair), 6)
                for pair in zip(costs.seconds, after[model].seconds, strict=True)
            ),
            behind=round(mean((costs.behind, after[model].behind)), 6),
        )
        for model, costs in before.items()
    }
