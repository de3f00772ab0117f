"""What the page does on the server: speedups measured in rounds, one run at a time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, get_args

import gradio as gr
import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.benchmark.protocol import AGAIN, ROUNDS
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.sampling import Sampling
from ouroboros_core.sweeps.grid import Axis, Grid
from ouroboros_core.sweeps.sweep import Sweep
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import MAX_BYTES
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Learned, TokenTree
from tests.folders import small_pair
from visualize.gallery.tab import TracesPanel
from visualize.kit.inputs import learns
from visualize.race import tab as race
from visualize.run.figures import CHARTS
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.server.session import Asked, Session
from visualize.server.updates import (
    Compared,
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
from visualize.sweep import tab as sweep
from visualize.watch.tab import _after_comparing
from visualize.watch.warm_start import Keeping


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


@pytest.fixture
def never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine is doing."""
    monkeypatch.setattr(metrics, "busy", lambda *_: None)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Generation]:
    """All runs, in the order in which they begin."""
    found: list[Generation] = []
    running = Generation.__iter__

    def noted(self: Generation) -> Iterator[Step]:
        found.append(self)
        return running(self)

    monkeypatch.setattr(Generation, "__iter__", noted)
    return found


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
        updates = list(runner.run(make_task(), compare=True))
        method, plain = "speculative", "autoregressive"
        timed = [plain, method, method, plain, plain, method]
        assert methods_of(begun) == [method, *timed], "the run that is shown does not count"
        compared = [update for update in updates if isinstance(update, Compared)]
        assert [len(update.speedup.each) for update in compared] == [1, 2]
        statuses = [update.view["status"] for update in compared]
        assert [status.rpartition(". ")[2] for status in statuses] == [
            "Measuring again, 2 of 3 …",
            "Measuring again, 3 of 3 …",
        ]
        shown = [update.view["tiles"][1] for update in compared]
        assert shown[0]["spread"] == "1 round" and shown[1]["spread"].endswith(", 2 rounds")
        last = ending(updates)
        assert last.speedup is not None and last.baseline is not None
        each = last.speedup.each
        assert metrics.speedup(last.trace, last.baseline) == median(each)
        tile = last.view["tiles"][1]
        assert tile["value"] == f"{median(each):.2f}×"
        assert tile["spread"] == f"({min(each):.2f}–{max(each):.2f}), 3 rounds"
    alone = ending(runner.run(make_task(method="autoregressive"), compare=True))
    assert alone.baseline is None, "plain decoding is not compared with itself"


def test_a_round_on_a_busy_machine_is_measured_again_and_then_the_warning_stands(
    runner: Runner, begun: list[Generation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "busy", lambda *_: ("unsteady", 1.0))
    last = ending(runner.run(make_task(), compare=True))
    assert len(begun) == 1 + 2 * (ROUNDS + AGAIN)
    assert last.view["tiles"][1]["mark"] == "measured on a busy machine"
    assert last.view["notices"][-1]["act"] == "again"


@pytest.mark.usefixtures("never_busy")
def test_a_long_answer_has_fewer_rounds_and_they_are_counted(begun: list[Generation]) -> None:
    """No time at all: the first round runs, of which the run that is shown is a part, and no
    other."""
    short = Runner(Models(lambda _: small_pair()), Limits(round_seconds=0))
    short.models.ask("").result()
    begun.clear()
    last = ending(short.run(make_task(), compare=True))
    assert (len(begun), last.view["tiles"][1]["spread"]) == (2, "1 round")
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    *_, raced = short.race(tasks)
    assert isinstance(raced, RaceProgress) and raced.view["done"] and len(begun) == 4


@pytest.mark.usefixtures("never_busy")
def test_what_was_measured_stays_where_measuring_again_is_stopped(runner: Runner) -> None:
    session, asked = Session(), Asked(make_task())
    session.ask(asked)
    running = runner.run(asked.task, compare=True)
    for update in running:
        session.take(update, asked)
        if isinstance(update, Compared):
            break
    running.close()
    assert session.leave() is asked
    assert session.trace is not None and session.baseline is not None
    assert session.speedup is not None
    assert session.speedup.remark == "1 round"
    assert "Measuring again was stopped after 1 round." in _after_comparing(
        False, session.trace, session.speedup
    )
    assert ending(runner.run(make_task(), compare=False)).trace.steps, "the lane is free"


@pytest.mark.usefixtures("never_busy")
@pytest.mark.parametrize("method", ["sam", "token_recycling"])
def test_every_round_of_a_warm_run_begins_with_what_was_kept_before_it(
    runner: Runner, begun: list[Generation], method: str
) -> None:
    """A run that knew its own answer of the round before would copy it: fewer steps."""
    task, session = make_task(method=method), Session()
    for _ in range(2):
        asked = Asked(task, warm=True)
        session.ask(asked)
        for update in runner.run(task, compare=True, memory=partial(session.memory, task)):
            session.take(update, asked)
    cold, *others = [len(one.steps) for one in begun if one.task.method == method]
    warm = others[ROUNDS]
    assert others == [cold] * ROUNDS + [warm] * (1 + ROUNDS)
    assert warm < cold, "the case must be one in which memory saves steps"
    (kept,) = session.memories.values()
    assert kept.runs == 2, "one run for each that was asked for"


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
    assert set(last.charts) == {chart.id for chart in CHARTS}
    assert last.trace.tokens == last.baseline.tokens


def test_a_run_starts_once_and_ends_once_whoever_waits_says_so_before(runner: Runner) -> None:
    """Also where one waits, where it is not compared, and where it is stopped."""
    alone = [type(update) for update in runner.run(make_task(), compare=False)]
    assert (alone[0], alone[-1]) == (Started, Finished)
    assert set(alone[1:-1]) == {Progress}
    blocking = runner.run(make_task(), compare=False)
    next(blocking)
    waiting = runner.run(make_task(prompt="the mat was there first"), compare=True)
    assert isinstance(next(waiting), Waiting)
    blocking.close()
    kinds = [type(update) for update in waiting]
    kinds = kinds[kinds.index(Started) :]
    assert (kinds.count(Started), kinds.count(Written), kinds.count(Finished)) == (1, 1, 1)
    written = kinds.index(Written)
    assert set(kinds[1:written]) == {Progress}
    assert set(kinds[written + 1 :]) == {Comparing, Compared, Finished}
    assert kinds[-1] is Finished


def test_what_a_worker_yields_is_pickled_and_comes_back_equal(runner: Runner) -> None:
    """Of runs and races, every kind; of a sweep, which is never lent, all but the sweep itself."""
    learning = make_task(method="ouroboros")
    memory = partial(Session().memory, learning)
    blocking = runner.run(make_task(), compare=False)
    next(blocking)
    running = runner.run(learning, compare=True, memory=memory)
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


@pytest.mark.parametrize("method", ["ouroboros", "token_recycling", "sam", "union"])
def test_what_a_visitor_downloads_is_what_the_next_run_begins_with(
    runner: Runner, method: str
) -> None:
    """The identity: saved, loaded by somebody else, and saved again it is the same text; the oracle
    of what it does is the run of the one who made it."""
    task, mine, other = make_task(method=method), Session(), Session()
    pair = runner.models.loaded("")
    with pytest.raises(InvalidInput, match="nothing yet"):
        Keeping.saved(mine, task, pair)

    def run(session: Session) -> list[TokenTree]:
        asked = Asked(task, warm=True)
        session.ask(asked)
        for update in runner.run(task, compare=False, memory=partial(session.memory, task)):
            with pytest.raises(InvalidInput, match="under way"):
                Keeping.saved(session, task, pair)
            session.take(update, asked)
        assert session.trace is not None
        return [step.tree for step in session.trace.steps]

    run(mine)
    file = Keeping.saved(mine, task, pair)
    assert file["name"] == f"{method}-memory.json" and file["said"].endswith("after 1 run")
    assert "next run begins" in Keeping.loaded(other, task, pair, file["text"])
    assert Keeping.saved(other, task, pair)["text"] == file["text"]
    assert run(mine) == run(other)


def test_a_file_that_does_not_fit_the_method_is_refused_with_the_reason(runner: Runner) -> None:
    pair, session = runner.models.loaded(""), Session()
    task = make_task(method="ouroboros")
    size = task.hyperparameters.model_dump()["ngram_size"]
    for memory, why in (
        (Successors(8, pair.fingerprint), "matrix of candidates, but this method keeps"),
        (PhrasePool(size, 4, fingerprint="other"), "another tokenizer"),
        (PhrasePool(size + 1, 4, fingerprint=pair.fingerprint), "made with other settings"),
    ):
        with pytest.raises(InvalidInput, match=why):
            Keeping.loaded(session, task, pair, memory.to_json())
    far = PhrasePool(size, 4, fingerprint=pair.fingerprint)
    far.insert(2**20, (1,) * (size - 1), Learned.VERIFICATION, 0)
    with pytest.raises(InvalidInput, match="beyond the vocabulary"):
        Keeping.loaded(session, task, pair, far.to_json())
    with pytest.raises(InvalidInput, match="keeps nothing"):
        Keeping.loaded(session, make_task(method="speculative"), pair, far.to_json())
    with pytest.raises(InvalidInput, match="characters"):
        Keeping.loaded(session, task, pair, " " * (MAX_BYTES + 1))
    assert not session.memories


def test_a_race_ends_with_each_lane_and_shows_all_of_them(runner: Runner) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates = list(runner.race(tasks))
    ended = [update for update in updates if isinstance(update, LaneFinished)]
    assert [len(update.view["lanes"]) for update in ended] == [1, 2]
    assert ended[0].trace.tokens == ended[1].trace.tokens, "the oracle: plain decoding"
    assert isinstance(updates[-1], RaceProgress)
    done = [update.view["done"] for update in updates if hasattr(update, "view")]
    assert done == [False] * (len(done) - 1) + [True]


def test_a_race_goes_on_without_the_lane_that_cannot_run_and_names_it(runner: Runner) -> None:
    """A Medusa lane, where there are no heads. Where no other lane is left, the race is refused."""
    tasks = [(name, make_task(method=name)) for name in ("autoregressive", "medusa", "speculative")]
    *_, last = runner.race(tasks)
    assert isinstance(last, RaceProgress) and last.view["done"]
    assert [lane["name"] for lane in last.view["lanes"]] == ["autoregressive", "speculative"]
    assert "Left out: medusa (medusa needs" in last.view["status"]
    with pytest.raises(InvalidInput, match="medusa needs"):
        list(runner.race(tasks[:2]))


@pytest.mark.usefixtures("never_busy")
def test_a_race_ends_with_the_medians_of_three_rounds_in_changing_order(
    runner: Runner, begun: list[Generation]
) -> None:
    names = ["autoregressive", "speculative", "prompt_lookup"]
    tasks = [(method, make_task(method=method)) for method in names]
    updates = list(runner.race(tasks))
    plain, drafted, copied = names
    assert methods_of(begun) == [*names, drafted, copied, plain, copied, drafted, plain]
    rounds = [
        update.view
        for update in updates
        if isinstance(update, RaceProgress) and update.view.get("lanes")
    ]
    assert len(rounds) == 3
    assert [view["status"] for view in rounds[:2]] == [
        f"All lanes have run; measuring again, {n} of 3 …" for n in (2, 3)
    ]
    told = [[lane["row"][5].partition("×, ")[2] for lane in view["lanes"]] for view in rounds]
    assert told[0] == ["", "1 round", "1 round"], "plain decoding is compared with nothing"
    assert all(remark.endswith("), 3 rounds") for remark in told[2][1:])
    texts = [[step["tokens"] for step in lane["steps"]] for lane in rounds[0]["lanes"]]
    assert [[step["tokens"] for step in lane["steps"]] for lane in rounds[2]["lanes"]] == texts
    seconds = [[lane["row"][3] for lane in view["lanes"]] for view in rounds]
    sums = [f"{sum(sum(s['seconds']) for s in lane['steps']):.2f}" for lane in rounds[2]["lanes"]]
    assert seconds[2] == sums, "what is replayed and ranked is the median run"


def test_a_lane_is_shown_while_it_runs_and_every_lane_is_known_from_the_first_update(
    runner: Runner,
) -> None:
    tasks = [(method, make_task(method=method)) for method in ("autoregressive", "speculative")]
    updates = list(runner.race(tasks))
    views = [update.view for update in updates if isinstance(update, RaceProgress)]
    assert views[0]["names"] == ["autoregressive", "speculative"] and not views[0]["steps"]
    ended = [update for update in updates if isinstance(update, LaneFinished)][-1].view
    for number, lane in enumerate(ended["lanes"]):
        grown = [view for view in views if view.get("lane") == number]
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
