"""Runs: what is shown of them, what is timed, and how speedups are measured, with tiny models."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import AGAIN, ROUNDS
from ouroboros_core.decoding.generation import Generation
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import AUTO
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from tests.visualize.jobs import ending, letters, make_task, ready, run
from visualize.run import view as views
from visualize.run.figures import MORE_CHARTS
from visualize.run.live import Comparing
from visualize.run.request import RunRequest
from visualize.server.jobs import Turn, Waiting
from visualize.server.limits import Limits
from visualize.server.runner import Runner
from visualize.watch import job
from visualize.watch.job import Compared, Finished, Live, Progress, RunJob, Started, Written
from visualize.watch.session import Order, Session
from visualize.watch.tab import FIXED, repeated


def loud(notices: list[Any]) -> list[Any]:
    return [notice for notice in notices if "quiet" not in notice]


def methods_of(begun: list[Generation]) -> list[str]:
    return [one.task.method for one in begun]


@pytest.mark.usefixtures("never_busy")
def test_method_and_plain_decoding_run_in_turn_and_the_median_is_shown(
    runner: Runner, begun: list[Generation]
) -> None:
    """The oracle is the median of what the rounds say of themselves; nothing is kept from an
    earlier comparison."""
    for _ in range(2):
        begun.clear()
        updates = list(run(runner, make_task(), compare=True))
        method, plain = "speculative", "autoregressive"
        timed = [plain, method, method, plain, plain, method]
        assert methods_of(begun) == [method, *timed], "the run that is shown does not count"
        compared = [update for update in updates if isinstance(update, Compared)]
        assert [len(update.speedup.each) for update in compared] == [1, 2]
        statuses = [update.view["status"].rpartition(". ")[2] for update in compared]
        assert statuses == [f"Measuring again, {n} of 3 …" for n in (2, 3)]
        shown = [update.view["tiles"][1] for update in compared]
        assert shown[0]["value"] == f"about {compared[0].speedup.median:.1f}×"
        assert shown[0]["spread"] == "1 round so far" and shown[0]["doubtful"]
        assert shown[1]["spread"].endswith(", 2 rounds")
        first, second = (update.view for update in compared)
        assert "×" not in first["sentence"], "a busy machine may still withdraw it"
        told = f"So far {shown[0]['value']} as fast: 1 round."
        assert told in [notice["words"] for notice in first["notices"] if notice["quiet"]]
        assert shown[1]["value"] in second["sentence"]
        last = ending(updates)
        assert last.speedup is not None and last.baseline is not None
        each = last.speedup.each
        assert metrics.speedup(last.trace, last.baseline) == median(each)
        rate, tile = last.view["tiles"][:2]
        seconds = sum(sum(step["seconds"]) for step in last.view["steps"])
        # The timeline has the seconds of the tiles.
        assert float(rate["value"]) == pytest.approx(len(last.trace.tokens) / seconds, rel=0.01)
        assert last.view["again"] == "same steps"
        assert tile["value"] == f"{median(each):.2f}×"
        assert tile["spread"] == f"({min(each):.2f}–{max(each):.2f}), 3 rounds"
    alone = ending(run(runner, make_task(method="autoregressive"), compare=True))
    assert alone.baseline is None, "plain decoding is not compared with itself"


def test_a_round_on_a_busy_machine_is_measured_again_and_then_the_warning_stands(
    runner: Runner, begun: list[Generation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "busy", lambda *_: ("unsteady", 1.0))
    last = ending(run(runner, make_task(), compare=True))
    assert len(begun) == 1 + 2 * (ROUNDS + AGAIN)
    assert last.view["tiles"][1]["doubtful"] and "as fast" not in last.view["sentence"]
    assert last.view["notices"][-1]["act"] == "again"
    assert all(notice["beside"] for notice in last.view["notices"]), "it has room from the start"


@pytest.mark.usefixtures("never_busy")
def test_a_long_answer_has_fewer_rounds_and_they_are_counted(begun: list[Generation]) -> None:
    """No time at all: the first round runs, of which the run that is shown is a part, and no
    other."""
    short = ready(Limits(sweep_minutes=0))
    begun.clear()
    last = ending(run(short, make_task(), compare=True))
    assert (len(begun), last.view["tiles"][1]["spread"]) == (2, "1 round")


@pytest.mark.usefixtures("never_busy")
def test_what_was_measured_stays_where_the_timing_ends_early(runner: Runner) -> None:
    session, order = Session(), Order(make_task())
    session.place(order)
    running = run(runner, order.task, compare=True)
    for update in running:
        session.take(update, order)
        if isinstance(update, Compared):
            break
    running.close()
    assert session.leave() is order
    assert session.trace is not None and session.baseline is not None
    assert session.speedup is not None and session.speedup.remark == "1 round"
    assert ending(run(runner, make_task(), compare=False)).trace.steps, "the lane is free"


@pytest.mark.usefixtures("never_busy")
def test_a_notice_stays_while_a_run_is_timed_but_that_of_a_busy_machine(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run says in its caption what its trace does not know."""
    monkeypatch.setattr(views, "automatic_off", lambda _: True)
    updates = list(run(runner, make_task(generation_config=False), compare=True))
    shown = [update.view["notices"] for update in updates if isinstance(update, Written | Compared)]
    acts = [[notice["act"] for notice in loud(notices)] for notices in shown]
    assert acts == [["fixed"]] * ROUNDS
    words = "greedy", "at most 12 tokens", "without the checkpoint's settings", "a small model"
    for update in updates:
        if isinstance(update, Started | Written | Compared | Finished):
            said = tuple(one["words"] for one in update.view["conditions"])
            assert [one for one in said if one in words] == list(words)
    monkeypatch.setattr(metrics, "busy", lambda *_: ("unsteady", 1.0))
    again = list(run(runner, make_task(), compare=True))
    first = next(update for update in again if isinstance(update, Compared))
    assert [notice["act"] for notice in loud(first.view["notices"])] == ["fixed"]
    assert first.view["notices"][-1]["words"] == "The machine was busy in 1 round."
    assert [notice["act"] for notice in ending(again).view["notices"]] == ["again", "fixed"]


def test_show_it_anyway_fixes_what_is_automatic_and_keeps_the_other_settings() -> None:
    kind: Any = methods.get("ouroboros").Hyperparameters
    task = replace(make_task(), method="ouroboros", hyperparameters=kind(gamma=7))
    before = task.hyperparameters.model_dump()
    after = repeated(task, FIXED).hyperparameters.model_dump()
    automatic = {name for name, value in before.items() if value == AUTO}
    assert {name for name in before if before[name] != after[name]} == automatic != set()
    assert {name: after[name] for name in automatic}.items() <= kind.fixed().items()


def test_a_run_streams_every_step_once_and_ends_with_everything(runner: Runner) -> None:
    updates = list(run(runner, make_task(max_new_tokens=40), compare=True))
    seen = 0
    for update in updates:
        if isinstance(update, Progress):
            assert update.view["from"] == seen
            assert len(update.view["steps"]) == len(update.new_steps)
            seen += len(update.new_steps)
    last = updates[-1]
    assert isinstance(last, Finished) and last.baseline is not None
    assert [s["index"] for s in last.view["steps"]] == list(range(len(last.trace.steps)))
    assert last.view["done"]
    assert last.view["tiles"][-1]["value"] == "yes"
    assert set(last.charts) == {chart.id for chart in MORE_CHARTS}
    assert last.trace.tokens == last.baseline.tokens


def test_a_run_starts_once_and_ends_once_whoever_waits_says_so_before(runner: Runner) -> None:
    """Also where one waits, where it is not compared, and where it is stopped."""
    alone = [type(update) for update in run(runner, make_task(), compare=False)]
    assert (alone[0], alone[-1]) == (Started, Finished)
    assert set(alone[1:-1]) == {Progress}
    blocking = run(runner, make_task(), compare=False)
    next(blocking)
    waiting = run(runner, make_task(prompt="the mat was there first"), compare=True)
    assert isinstance(next(waiting), Waiting)
    blocking.close()
    kinds = [type(update) for update in waiting]
    kinds = kinds[kinds.index(Started) :]
    assert (kinds.count(Started), kinds.count(Written), kinds.count(Finished)) == (1, 1, 1)
    written = kinds.index(Written)
    assert set(kinds[1:written]) == {Progress}
    assert {*kinds[written + 1 :]} - {Waiting} == {Comparing, Compared, Finished}
    assert kinds[-1] is Finished


def last_update(runner: Runner, **more: Any) -> Any:
    return ending(run(runner, make_task(**more), compare=True))


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


SLOW = 1e9


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Models whose runs, when they are shown, seem to take days; one round is timed."""
    progress = Live.progress

    def slowed(self: Live) -> Iterator[Progress]:
        yield from progress(self)
        steps = self.generation.steps
        steps[:] = [replace(step, seconds=step.seconds.times(SLOW)) for step in steps]

    monkeypatch.setattr(Live, "progress", slowed)
    monkeypatch.setattr(job, "ROUNDS", 1)
    return letters()


def run_alone(
    models: Pair, method: str, compare: bool = True, charts: bool = True, seconds: float = 60.0
) -> tuple[list[Any], Finished]:
    task = RunRequest("abcdefgh", method, {}, False, 12, {}, record=True).task()
    *updates, last = RunJob(task, compare, charts).updates(models, Turn("a run", seconds))
    assert isinstance(last, Finished)
    return updates, last


def shown(trace: Trace) -> bool:
    """Return whether these are the seconds of the run that was shown."""
    return sum(step.seconds.decode for step in trace.steps) > 1000


@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_the_run_that_is_shown_is_not_the_one_that_is_timed(models: Pair, method: str) -> None:
    updates, last = run_alone(models, method)
    (written,) = (update for update in updates if isinstance(update, Written))
    assert last.trace.tokens == written.trace.tokens
    assert (shown(written.trace), shown(last.trace)) == (True, False)
    assert (last.baseline is not None) == (method == "speculative")
    assert all(step.judged for step in last.trace.steps), "the probabilities were asked for"


@pytest.mark.parametrize(
    ("charts", "seconds"), [(False, 60.0), (True, 0.0)], ids=["nobody draws", "no time"]
)
@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_it_is_where_nobody_draws_and_where_time_is_short(
    models: Pair, method: str, charts: bool, seconds: float
) -> None:
    _, last = run_alone(models, method, charts=charts, seconds=seconds)
    assert shown(last.trace)
    assert last.baseline is None or not shown(last.baseline)


def test_what_is_not_to_be_compared_is_run_once(models: Pair) -> None:
    updates, last = run_alone(models, "speculative", compare=False)
    assert (last.baseline, last.speedup) == (None, None)
    assert shown(last.trace)
    assert not any(isinstance(update, Written | Comparing) for update in updates)
