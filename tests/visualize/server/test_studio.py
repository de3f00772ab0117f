"""What the page does on the server: baselines kept for ten minutes, one run at a time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import gradio as gr
import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.grid import Axis, Grid
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.benchmark.sweep import Sweep
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.generation import Task
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Learned
from tests.folders import small_pair
from tests.traces import typed_trace
from visualize.server.baselines import BASELINE_SECONDS, BASELINES_KEPT, Baselines
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.server.session import Asked, Session
from visualize.server.updates import (
    Comparing,
    Finished,
    LaneFinished,
    Progress,
    RaceProgress,
    RaceUpdate,
    RunUpdate,
    Started,
    SweepProgress,
    SweepStarted,
    Waiting,
    Written,
)
from visualize.tabs import race, sweep
from visualize.tabs.generate import CHARTS
from visualize.tabs.inputs import learns
from visualize.tabs.traces import TracesPanel


def make_task(prompt: str = "the cat sat", method: str = "speculative", **more: Any) -> Task:
    return Task(
        prompt,
        method,
        methods.get(method).Hyperparameters(),
        **{"max_new_tokens": 12, "chat": False, **more},
    )


QUESTION = Question(1, "own", ("the cat sat",))


def ending(updates: Iterable[RunUpdate]) -> Finished:
    """How a run ends."""
    *_, last = updates
    assert isinstance(last, Finished)
    return last


def said(update: RunUpdate) -> str:
    """What it waits for."""
    assert isinstance(update, Waiting)
    return update.status


@pytest.fixture(scope="module")
def runner() -> Runner:
    made = Runner(Models(lambda _: small_pair()))
    made.models.ask("").result()
    return made


def test_a_baseline_is_forgotten_after_ten_minutes_and_when_there_are_too_many() -> None:
    now = [0.0]
    kept = Baselines(lambda: now[0])
    kept.put("a", typed_trace())
    now[0] = BASELINE_SECONDS - 1
    assert kept.get("a") is not None
    now[0] = BASELINE_SECONDS + 1
    assert kept.get("a") is None
    for n in range(BASELINES_KEPT + 1):
        kept.put(str(n), typed_trace())
    assert kept.get("0") is None
    assert kept.get("1") is not None


def test_plain_decoding_runs_once_for_a_task_and_again_for_another(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def baseline(**more: Any) -> Any:
        return ending(runner.run(make_task(**more), compare=True)).baseline

    monkeypatch.setattr(metrics, "busy", lambda *_: None)  # whatever else this machine is doing
    first = baseline()
    assert baseline() is first
    assert baseline(method="ouroboros") is first, "the same text, whatever the method"
    assert baseline(max_new_tokens=11) is not first
    assert baseline(prompt="the mat") is not first
    assert baseline(sampling=Sampling(temperature=0.5)) is not first
    assert baseline(method="autoregressive") is None, "plain decoding is not compared with itself"


def test_plain_decoding_measured_on_a_busy_machine_is_measured_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is made a thousand times as slow: one more run replaces it, by one that was
    measured; and what was measured while the machine was busy is not kept."""

    def by_far(trace: Trace, baseline: Trace) -> tuple[str, float] | None:
        """Whatever else this machine is doing makes nothing a hundred times as slow."""
        ratio = metrics.slowed(trace, baseline)
        return ("slowed", ratio) if ratio and ratio > 100 else None

    monkeypatch.setattr(metrics, "busy", by_far)
    task = make_task(prompt="the cat was busy")
    list(runner.run(task, compare=True))
    key = Baselines.key(runner.models.loaded(""), task)
    kept = runner._baselines.get(key)
    assert kept is not None
    slow = replace(
        kept,
        steps=tuple(
            replace(s, seconds=replace(s.seconds, verify=1000 * s.seconds.verify))
            for s in kept.steps
        ),
    )
    runner._baselines.put(key, slow)
    used = ending(runner.run(task, compare=True)).baseline
    assert used is not None
    assert metrics.plain_step_seconds(used) < metrics.plain_step_seconds(slow) / 10
    assert used.tokens == slow.tokens
    assert runner._baselines.get(key) is used
    assert ending(runner.run(task, compare=True)).baseline is used
    again = ending(runner.run(task, compare=True, fresh=True)).baseline
    assert again is not used, "one may ask for it"
    monkeypatch.setattr(metrics, "busy", lambda *_: ("unsteady", 1.0))
    assert ending(runner.run(task, compare=True)).baseline is not again
    assert runner._baselines.get(key) is again


def test_a_run_streams_every_step_once_and_ends_with_everything(runner: Runner) -> None:
    updates = list(runner.run(make_task(max_new_tokens=40), compare=True))
    seen = 0
    for update in updates:
        if isinstance(update, Progress):
            assert update.view["from"] == seen
            assert len(update.view["steps"]) == len(update.steps)
            seen += len(update.steps)
    last = updates[-1]
    assert isinstance(last, Finished) and last.baseline is not None
    assert [s["index"] for s in last.view["steps"]] == list(range(len(last.trace.steps)))
    assert last.view["done"]
    assert last.view["tiles"][-1]["value"] == "yes"
    assert set(last.charts) == set(CHARTS)
    assert last.trace.tokens == last.baseline.tokens


def test_a_run_starts_once_and_ends_once_whoever_waits_says_so_before(runner: Runner) -> None:
    """Also where one waits, where it is not compared, and where it is stopped."""
    alone = [type(update) for update in runner.run(make_task(), compare=False)]
    assert (alone[0], alone[-1]) == (Started, Finished)
    assert set(alone[1:-1]) == {Progress}
    blocking = runner.run(make_task(), compare=False)
    next(blocking)
    waiting = runner.run(make_task(prompt="the mat was there first"), compare=True, fresh=True)
    assert isinstance(next(waiting), Waiting)
    blocking.close()
    kinds = [type(update) for update in waiting]
    kinds = kinds[kinds.index(Started) :]
    assert (kinds.count(Started), kinds.count(Written), kinds.count(Finished)) == (1, 1, 1)
    written = kinds.index(Written)
    assert set(kinds[1:written]) == {Progress}
    assert set(kinds[written + 1 :]) == {Comparing, Finished}
    assert kinds[-1] is Finished


def test_what_a_worker_yields_is_pickled_and_comes_back_equal(runner: Runner) -> None:
    """Of runs and races, every kind; of a sweep, which is never lent, all but the sweep itself."""
    learning = make_task(method="ouroboros")
    memory = partial(Session().memory, learning)
    blocking = runner.run(make_task(), compare=False)
    next(blocking)
    running = runner.run(learning, compare=True, memory=memory, fresh=True)
    updates: list[Any] = [next(running)]
    blocking.close()
    updates += running
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates += runner.race(tasks)
    assert {type(update) for update in updates} == {*get_args(RunUpdate), *get_args(RaceUpdate)}
    grid = Grid("speculative", (Axis("gamma", (2,)),))
    sweeping = list(runner.sweep(lambda pair: Sweep(pair, grid, [QUESTION], 1, 8)))
    assert [type(update) for update in sweeping[:2]] == [SweepStarted, SweepProgress]
    updates += sweeping[1:]
    for update in updates:
        back = pickle.loads(pickle.dumps(update))
        if isinstance(update, Started | Finished) and update.memory is not None:
            assert back.memory.fingerprint == update.memory.fingerprint
            back = replace(back, memory=update.memory)
        assert back == update


@pytest.mark.parametrize("method", ["ouroboros", "token_recycling", "sam", "union"])
def test_what_is_kept_for_a_warm_start_belongs_to_one_visitor(runner: Runner, method: str) -> None:
    task, mine, other = make_task(method=method), Session(), Session()
    if method == "ouroboros":  # phrases of the text, of which so short a one has some
        kind = methods.get(method)
        task = replace(task, hyperparameters=kind.Hyperparameters.parse({"extended": True}))
    said = []
    for session in (mine, mine, other):
        asked = Asked(task, warm=True)
        session.ask(asked)
        for update in runner.run(task, compare=False, memory=partial(session.memory, task)):
            session.take(update, asked)
        assert session.trace is not None
        origins = [p for step in session.trace.steps for p in step.tree.provenance]
        said.append(any(p.learned is Learned.HISTORY for p in origins))
    assert said == [False, True, False], "another visitor begins cold"
    (kept,), (theirs,) = mine.memories.values(), other.memories.values()
    assert (kept.runs, theirs.runs) == (2, 1) and kept is not theirs


def test_a_race_ends_with_each_lane_and_shows_all_of_them(runner: Runner) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    ended = [update for update in runner.race(tasks) if isinstance(update, LaneFinished)]
    assert [update.view["done"] for update in ended] == [False, True]
    assert [len(update.view["lanes"]) for update in ended] == [1, 2]
    assert ended[0].trace.tokens == ended[1].trace.tokens, "the oracle: plain decoding"


def test_a_lane_is_shown_while_it_runs_and_every_lane_is_known_from_the_first_update(
    runner: Runner,
) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates = list(runner.race(tasks))
    views = [update.view for update in updates if isinstance(update, RaceProgress)]
    assert views[0]["names"] == ["autoregressive", "speculative"] and not views[0]["steps"]
    ended = [update for update in updates if isinstance(update, LaneFinished)][-1].view
    for number, lane in enumerate(ended["lanes"]):
        grown = [view for view in views if view["lane"] == number]
        assert "reading the prompt" in grown[0]["status"]
        steps = [step for view in grown for step in view["steps"]]
        assert steps and steps == lane["steps"][: len(steps)]
        assert all(view["from"] == view["steps"][0]["index"] for view in grown if view["steps"])


def last_update(runner: Runner, **more: Any) -> Any:
    return ending(runner.run(make_task(**more), compare=True))


def test_what_need_not_be_identical_is_not_called_a_difference(runner: Runner) -> None:
    """A draft model that writes alone, and rejection sampling: another text, but no error."""
    alone = last_update(runner, method="draft_only")
    assert alone.trace.tokens != alone.baseline.tokens
    assert alone.difference is None
    assert alone.view["tiles"][-1]["note"] == "The draft model wrote this alone; nobody checked it."
    assert {t["look"] for s in alone.view["steps"] for t in s["tokens"]} == {"draft"}
    rejecting = Sampling(temperature=1.0, seed=1, acceptance="rejection")
    alone = last_update(runner, method="draft_only", sampling=rejecting)
    assert alone.view["tiles"][-1]["note"] == "The draft model wrote this alone; nobody checked it."
    sampled = last_update(runner, sampling=rejecting)
    assert sampled.trace.tokens != sampled.baseline.tokens
    assert sampled.difference is None
    assert sampled.view["tiles"][-1]["value"] == "in distribution"
    greedy = last_update(runner, sampling=Sampling(acceptance="rejection"))
    assert greedy.view["tiles"][-1]["value"] == "yes"


def test_a_second_run_waits_until_a_stopped_one_has_left(runner: Runner) -> None:
    """As after Stop: the first generator is dropped while its thread may still be inside a pass."""
    first = runner.run(make_task(max_new_tokens=64), compare=False)
    next(first)
    second = runner.run(make_task(prompt="the mat"), compare=False)
    assert said(next(second)) == "Waiting for another run to end …"
    threading.Timer(0.3, first.close).start()
    assert ending(second).trace.prompt.text == "the mat"


def test_a_task_that_cannot_run_frees_the_lane(runner: Runner) -> None:
    with pytest.raises(InvalidInput, match="has room for 256"):
        list(runner.run(make_task(max_new_tokens=300), compare=True))
    assert ending(runner.run(make_task(), compare=False)).trace.steps


def test_models_that_do_not_load_are_an_answer_not_a_hang() -> None:
    def fail() -> Pair:
        raise MemoryError("no room")

    broken = Runner(Models(lambda _: fail()))
    broken.models.start()
    with pytest.raises(InvalidInput, match="these models do not fit into the memory"):
        list(broken.run(make_task(), compare=True))
    assert broken.models.state().startswith(
        "The models could not be loaded: these models do not fit"
    )


def test_who_comes_when_too_many_wait_is_told_so_whichever_way() -> None:
    """A queue of two: one computes, one waits."""
    small = Runner(Models(lambda _: small_pair()), waiting=1)
    small.models.ask("").result()
    first, second, third = (
        small.run(make_task(max_new_tokens=64), compare=False) for _ in range(3)
    )
    next(first)
    next(second)
    with pytest.raises(InvalidInput, match="the queue is full: a run is waiting already"):
        next(third)
    first.close()
    assert ending(second).trace.steps
    assert ending(small.run(make_task(), compare=False)).trace.steps


def test_who_waits_is_served_in_the_order_of_coming_and_told_how_many_come_first(
    runner: Runner,
) -> None:
    runs = [runner.run(make_task(max_new_tokens=64), compare=False) for _ in range(4)]
    assert isinstance(next(runs[0]), Started)
    told = [said(next(run)) for run in runs[1:]]
    assert told == [
        "Waiting for another run to end …",
        *(f"Waiting for a turn: {n} runs come first …" for n in (2, 3)),
    ]
    runs[1].close()
    assert said(next(runs[3])) == "Waiting for a turn: 2 runs come first …"
    runs[0].close()
    assert isinstance(next(runs[2]), Started)
    assert said(next(runs[3])) == "Waiting for another run to end …"
    runs[2].close()
    assert isinstance(next(runs[3]), Started)
    runs[3].close()


def test_runs_that_wait_at_once_do_not_spend_one_budget_twice() -> None:
    runner = Runner(Models(lambda _: small_pair()), Limits(tokens=20))
    runner.models.ask("").result()
    first, second = (runner.run(make_task(), compare=False, visitor="a") for _ in range(2))
    next(first)
    next(second)
    list(first)
    with pytest.raises(InvalidInput, match="may have 20 tokens in an hour; you have had 12"):
        list(second)
    assert ending(runner.run(make_task(), compare=False, visitor="b")).trace.steps


@pytest.mark.parametrize("name", [[], None, {"a": 1}, 3])
def test_an_event_that_names_nothing_is_answered_with_words(name: Any) -> None:
    shown, _ = TracesPanel._compare(name, "java-ouroboros", Session())
    assert shown["problem"].startswith("Choose two runs to compare")
    for answer in (race._help, learns, partial(sweep._names, optional=True)):
        with pytest.raises(gr.Error, match="method must be one of"):
            answer(name)
