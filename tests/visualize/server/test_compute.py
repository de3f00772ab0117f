"""What is shown of a run, and what is timed, with tiny models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ouroboros_core.trace.trace import Trace
from tests.visualize.draft_game.test_job import PROMPT, pair
from visualize.server.compute import Compute, Live
from visualize.server.models import Models
from visualize.server.runner import make_task
from visualize.server.updates import Comparing, Finished, Progress, Written

SLOW = 1e9


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Compute:
    """Runs that are shown seem to take days."""
    progress = Live.progress

    def slowed(self: Live) -> Iterator[Progress]:
        yield from progress(self)
        steps = self.generation.steps
        steps[:] = [replace(step, seconds=step.seconds.times(SLOW)) for step in steps]

    monkeypatch.setattr(Live, "progress", slowed)
    models = Models(lambda _: pair())
    models.ask("").result()
    return Compute(models)


def run(
    compute: Compute, method: str, rounds: int, charts: bool = True, seconds: float = 60.0
) -> tuple[list[Any], Finished]:
    task = make_task(PROMPT, method, {}, False, 12, {}, record=True)
    *updates, last = compute.run("", task, "a run", charts, None, rounds, seconds)
    assert isinstance(last, Finished)
    return updates, last


def shown(trace: Trace) -> bool:
    """Whether these are the seconds of the run that was shown."""
    return sum(step.seconds.decode for step in trace.steps) > 1000


@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_the_run_that_is_shown_is_not_the_one_that_is_timed(compute: Compute, method: str) -> None:
    updates, last = run(compute, method, 1)
    (written,) = (one for one in updates if isinstance(one, Written))
    assert last.trace.tokens == written.trace.tokens
    assert (shown(written.trace), shown(last.trace)) == (True, False)
    assert (last.baseline is not None) == (method == "speculative")
    assert all(step.judged for step in last.trace.steps), (
        "with the probabilities that were asked for"
    )


@pytest.mark.parametrize(
    ("charts", "seconds"), [(False, 60.0), (True, 0.0)], ids=["nobody draws", "no time"]
)
@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_it_is_where_nobody_draws_and_where_time_is_short(
    compute: Compute, method: str, charts: bool, seconds: float
) -> None:
    _, last = run(compute, method, 1, charts, seconds)
    assert shown(last.trace)
    assert last.baseline is None or not shown(last.baseline)


def test_what_is_not_to_be_compared_is_run_once(compute: Compute) -> None:
    updates, last = run(compute, "speculative", 0)
    assert (last.baseline, last.speedup) == (None, None)
    assert shown(last.trace)
    assert not any(isinstance(one, Written | Comparing) for one in updates)
