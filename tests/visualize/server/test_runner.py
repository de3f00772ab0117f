"""Jobs of all visitors: their queue, their budgets, and what is pickled of them."""

import json
import logging
import pickle
import threading
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sweeps.grid import Axis, Grid
from tests.visualize.jobs import ending, make_task, ready, run, waits_for
from visualize.compare.comparison import Plan
from visualize.compare.job import CompareJob, CompareStarted, Ran, Running
from visualize.proof.job import ProofJob
from visualize.proof.tab import proof_task
from visualize.run.live import Comparing
from visualize.server.jobs import Job, Turn, Update, Waiting
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.queue import Rank
from visualize.server.runner import Runner
from visualize.watch.job import Compared, Finished, Progress, Started, Written
from visualize.watch.session import Session


def test_what_a_worker_yields_is_pickled_and_comes_back_equal(runner: Runner) -> None:
    """Of runs and comparisons, every kind."""
    learning = make_task(method="ouroboros")
    memory = partial(Session().memory, learning)
    blocking = run(runner, make_task(), compare=False)
    next(blocking)
    running = run(runner, learning, compare=True, memory=memory)
    updates: list[Any] = [next(running)]
    blocking.close()
    updates += running
    updates += runner.submit(COMPARISON)
    of_runs = {Started, Progress, Written, Comparing, Compared, Finished}
    of_comparisons = {CompareStarted, Running, Ran}
    assert {type(update) for update in updates} == {Waiting} | of_runs | of_comparisons
    for update in updates:
        back = pickle.loads(pickle.dumps(update))
        if isinstance(update, Started | Written | Finished) and update.memory is not None:
            assert back.memory.fingerprint == update.memory.fingerprint
            back = replace(back, memory=update.memory)
        assert back == update


def test_a_second_run_waits_until_a_stopped_one_has_left(runner: Runner) -> None:
    """As after Stop: the first generator is dropped while its thread may still be inside a pass."""
    first = run(runner, make_task(max_new_tokens=64), compare=False)
    next(first)
    second = run(runner, make_task(prompt="the mat"), compare=False)
    assert waits_for(next(second)) == "Waiting for another run to end …"
    threading.Timer(0.3, first.close).start()
    assert ending(second).trace.prompt.text == "the mat"


def test_a_task_that_cannot_run_frees_the_lane(runner: Runner) -> None:
    with pytest.raises(InvalidInput, match="has room for 256"):
        list(run(runner, make_task(max_new_tokens=300), compare=True))
    assert ending(run(runner, make_task(), compare=False)).trace.steps


def test_models_that_do_not_load_are_an_answer_not_a_hang() -> None:
    def fail(_: Any) -> Pair:
        raise MemoryError("no room")

    broken, why = Runner(Models(fail)), "these models do not fit into the memory"
    broken.models.start()
    with pytest.raises(InvalidInput, match=why):
        list(run(broken, make_task(), compare=True))
    assert broken.models.state().startswith(f"The models could not be loaded: {why}")


def test_who_comes_when_too_many_wait_is_told_so_whichever_way() -> None:
    """A queue of two: one computes, one waits."""
    small = ready(waiting=1)
    task = make_task(max_new_tokens=64)
    first, second, third = (run(small, task, compare=False) for _ in range(3))
    next(first)
    next(second)
    with pytest.raises(InvalidInput, match="the queue is full: a run is waiting already"):
        next(third)
    first.close()
    assert ending(second).trace.steps
    assert ending(run(small, make_task(), compare=False)).trace.steps


def test_who_waits_is_served_in_the_order_of_coming_and_told_how_many_come_first(
    runner: Runner,
) -> None:
    runs = [run(runner, make_task(max_new_tokens=64), compare=False) for _ in range(4)]
    assert isinstance(next(runs[0]), Started)
    told = [waits_for(next(run)) for run in runs[1:]]
    assert told == [
        "Waiting for another run to end …",
        *(f"Waiting for a turn: {n} runs come first …" for n in (2, 3)),
    ]
    runs[1].close()
    assert waits_for(next(runs[3])) == "Waiting for a turn: 2 runs come first …"
    runs[0].close()
    assert isinstance(next(runs[2]), Started)
    assert waits_for(next(runs[3])) == "Waiting for another run to end …"
    runs[2].close()
    assert isinstance(next(runs[3]), Started)
    runs[3].close()


def test_runs_that_wait_at_once_do_not_spend_one_budget_twice() -> None:
    runner = ready(Limits(tokens=20))
    first, second = (run(runner, make_task(), compare=False, visitor="a") for _ in range(2))
    next(first)
    next(second)
    list(first)
    with pytest.raises(InvalidInput, match="may have 20 tokens in an hour; you have had 12"):
        list(second)
    assert ending(run(runner, make_task(), compare=False, visitor="b")).trace.steps


@dataclass(frozen=True)
class Sums(Job):
    """A job of a feature that exists in this test alone."""

    kind = "sum"
    cost = 5

    @property
    def facts(self) -> dict[str, Any]:
        return {"numbers": [2, 1]}

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        yield Update(tokens=2)
        yield Update(tokens=3, steps=1, facts={"sum": 3})


def test_a_job_that_the_server_does_not_know_is_run_charged_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The oracle is what the job itself says; who stops pays for what was computed."""
    caplog.set_level(logging.INFO, logger="ouroboros.runs")
    runner = ready(Limits(tokens=8))
    stopped = runner.submit(Sums(), visitor="a")
    next(stopped)
    stopped.close()
    assert len(list(runner.submit(Sums(), visitor="a"))) == 2
    with pytest.raises(InvalidInput, match="you have had 5, and this would be 5 more"):
        list(runner.submit(Sums(), visitor="a"))
    lines = [json.loads(record.message) for record in caplog.records]
    ends = [(line["ending"], line["tokens"], line.get("sum")) for line in lines]
    assert ends == [("stopped", 2, None), ("done", 3, 3)]
    assert {(line["kind"], *line["numbers"]) for line in lines} == {("sum", 2, 1)}


GRID = Grid("speculative", (Axis("gamma", (2,)),))
COMPARISON = CompareJob(Plan(("the cat sat",), GRID, (), tokens=8, rounds=1, chat=False))
PROOF = ProofJob(proof_task(1, "the cat sat", "speculative", "match", 1.0, False, 0), 100, 1)


@dataclass(frozen=True)
class Measures(Job):
    """A series of pausable updates; each has the number of pauses before it."""

    kind = "series"
    cost = 1
    rank = Rank.SERIES

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        for _ in range(3):
            yield Running(lane=0, left=0.0, facts={"pauses": turn.pauses})


def test_a_run_computes_at_once_while_a_timing_or_a_series_goes_on(runner: Runner) -> None:
    """Both are paused and go on; the timing repeats its disturbed run and comes before the
    series."""
    series = runner.submit(Measures())
    next(series)
    timed = run(runner, make_task(max_new_tokens=24), compare=True)
    assert waits_for(next(timed)) == "Waiting for another run to end …"
    assert isinstance(next(series), Waiting), "it gives way at its next update"
    comparing = next(update for update in timed if isinstance(update, Comparing))
    assert comparing.pausable
    assert isinstance(next(series), Waiting), "a timing comes first"
    visitor = run(runner, make_task(prompt="the mat"), compare=False)
    assert isinstance(next(visitor), Waiting)
    assert isinstance(next(timed), Waiting)
    assert isinstance(next(visitor), Started)
    assert isinstance(next(timed), Waiting) and isinstance(next(series), Waiting)
    assert ending(visitor).trace.prompt.text == "the mat"
    last = ending(timed)
    assert last.speedup is not None and last.baseline is not None
    assert last.trace.tokens == last.baseline.tokens
    rest = [update.facts["pauses"] for update in series if not isinstance(update, Waiting)]
    assert rest == [1, 1]


@pytest.mark.parametrize("series", [COMPARISON, PROOF], ids=lambda job: job.kind)
def test_a_comparison_and_a_proof_give_way_to_a_run(runner: Runner, series: Job) -> None:
    updates = runner.submit(series)
    next(updates)
    visitor = run(runner, make_task(prompt="the mat"), compare=False)
    assert isinstance(next(visitor), Waiting)
    assert any(isinstance(update, Waiting) for update in updates), "it gives way before its end"
    assert ending(visitor).trace.prompt.text == "the mat"
    assert [update for update in updates if not isinstance(update, Waiting)], "and goes on"


def test_a_complete_run_frees_the_queue_even_if_nobody_asks_for_its_timing(runner: Runner) -> None:
    left = run(runner, make_task(), compare=True)
    assert any(isinstance(update, Written) for update in left)
    assert ending(run(runner, make_task(), compare=True)).speedup is not None
    left.close()
    assert ending(run(runner, make_task(), compare=False)).trace.steps
