"""What the page does on the server: baselines kept for ten minutes, one run at a time."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr
import pytest

from ouroboros_core import methods
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, make_pair
from ouroboros_core.sampling import Sampling
from tests import tiny
from tests.test_text import tokenizer
from tests.test_trace import typed_trace
from visualize.server.baselines import BASELINE_SECONDS, BASELINES_KEPT, Baselines
from visualize.server.limits import Limits
from visualize.server.models import Models
from visualize.server.runner import Studio
from visualize.server.session import Visit
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


def small_pair() -> Pair:
    """Tiny models with a real tokenizer, wide enough for its ids."""
    import transformers

    settings = {**tiny._SIZES, "vocab_size": len(tokenizer("bytes"))}
    target, draft = (
        transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**settings)).double()
        for _ in range(2)
    )
    return make_pair(target, draft, tokenizer("bytes"))


@pytest.fixture(scope="module")
def studio() -> Studio:
    made = Studio(Models(lambda _: small_pair()))
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
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    def baseline(**more: Any) -> Any:
        return list(studio.run(make_task(**more), compare=True))[-1]["baseline"]

    monkeypatch.setattr(metrics, "busy", lambda *_: None)  # whatever else this machine is doing
    first = baseline()
    assert baseline() is first
    assert baseline(method="ouroboros") is first, "the same text, whatever the method"
    assert baseline(max_new_tokens=11) is not first
    assert baseline(prompt="the mat") is not first
    assert baseline(sampling=Sampling(temperature=0.5)) is not first
    assert baseline(method="autoregressive") is None, "plain decoding is not compared with itself"


def test_plain_decoding_measured_on_a_busy_machine_is_measured_again(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is made a thousand times as slow: one more run replaces it, by one that was
    measured; and what was measured while the machine was busy is not kept."""
    monkeypatch.setattr(
        metrics, "busy", metrics.slowed
    )  # its other signs depend on what else this machine is doing
    task = make_task(prompt="the cat was busy")
    list(studio.run(task, compare=True))
    key = Baselines.key(studio.models.loaded(""), task)
    kept = studio._baselines.get(key)
    assert kept is not None
    slow = replace(
        kept,
        steps=tuple(
            replace(s, seconds=replace(s.seconds, verify=1000 * s.seconds.verify))
            for s in kept.steps
        ),
    )
    studio._baselines.put(key, slow)
    used = list(studio.run(task, compare=True))[-1]["baseline"]
    assert metrics.plain_step_seconds(used) < metrics.plain_step_seconds(slow) / 10
    assert used.tokens == slow.tokens
    assert studio._baselines.get(key) is used
    assert list(studio.run(task, compare=True))[-1]["baseline"] is used
    again = list(studio.run(task, compare=True, fresh=True))[-1]["baseline"]
    assert again is not used, "one may ask for it"
    monkeypatch.setattr(metrics, "busy", lambda *_: ("unsteady", 1.0))
    assert list(studio.run(task, compare=True))[-1]["baseline"] is not again
    assert studio._baselines.get(key) is again


def test_a_run_streams_every_step_once_and_ends_with_everything(studio: Studio) -> None:
    updates = list(studio.run(make_task(max_new_tokens=40), compare=True))
    seen = 0
    for update in updates[:-2]:
        view = update.get("view", {})
        if view.get("steps") and "tiles" not in view:
            assert view["from"] == seen
            seen += len(view["steps"])
    last = updates[-1]
    assert [s["index"] for s in last["view"]["steps"]] == list(range(len(last["trace"].steps)))
    assert last["view"]["done"]
    assert last["view"]["tiles"][-1]["value"] == "yes"
    assert set(last["charts"]) == set(CHARTS)
    assert last["trace"].tokens == last["baseline"].tokens


def last_update(studio: Studio, **more: Any) -> Any:
    return list(studio.run(make_task(**more), compare=True))[-1]


def test_what_need_not_be_identical_is_not_called_a_difference(studio: Studio) -> None:
    """A draft model that writes alone, and rejection sampling: another text, but no error."""
    alone = last_update(studio, method="draft_only")
    assert alone["trace"].tokens != alone["baseline"].tokens
    assert alone["difference"] is None
    assert (
        alone["view"]["tiles"][-1]["note"] == "The draft model wrote this alone; nobody checked it."
    )
    assert {t["look"] for s in alone["view"]["steps"] for t in s["tokens"]} == {"draft"}
    rejecting = Sampling(temperature=1.0, seed=1, acceptance="rejection")
    alone = last_update(studio, method="draft_only", sampling=rejecting)
    assert (
        alone["view"]["tiles"][-1]["note"] == "The draft model wrote this alone; nobody checked it."
    )
    sampled = last_update(studio, sampling=rejecting)
    assert sampled["trace"].tokens != sampled["baseline"].tokens
    assert sampled["difference"] is None
    assert sampled["view"]["tiles"][-1]["value"] == "in distribution"
    greedy = last_update(studio, sampling=Sampling(acceptance="rejection"))
    assert greedy["view"]["tiles"][-1]["value"] == "yes"


def test_a_second_run_waits_until_a_stopped_one_has_left(studio: Studio) -> None:
    """As after Stop: the first generator is dropped while its thread may still be inside a pass."""
    first = studio.run(make_task(max_new_tokens=64), compare=False)
    next(first)
    second = studio.run(make_task(prompt="the mat"), compare=False)
    assert next(second)["view"]["status"] == "Waiting for another run to end …"
    threading.Timer(0.3, first.close).start()
    assert list(second)[-1]["trace"].prompt.text == "the mat"


def test_a_task_that_cannot_run_frees_the_lane(studio: Studio) -> None:
    with pytest.raises(InvalidInput, match="has room for 256"):
        list(studio.run(make_task(max_new_tokens=300), compare=True))
    assert list(studio.run(make_task(), compare=False))[-1]["trace"].steps


def test_models_that_do_not_load_are_an_answer_not_a_hang() -> None:
    def fail() -> Pair:
        raise MemoryError("no room")

    broken = Studio(Models(lambda _: fail()))
    broken.models.start()
    with pytest.raises(InvalidInput, match="these models do not fit into the memory"):
        list(broken.run(make_task(), compare=True))
    assert broken.models.state().startswith(
        "The models could not be loaded: these models do not fit"
    )


def test_who_comes_when_too_many_wait_is_told_so_whichever_way() -> None:
    """Two places: one computes, one waits."""
    small = Studio(Models(lambda _: small_pair()), waiting=1)
    small.models.ask("").result()
    first, second, third = (
        small.run(make_task(max_new_tokens=64), compare=False) for _ in range(3)
    )
    next(first)
    next(second)
    with pytest.raises(InvalidInput, match="the queue is full: a run is waiting already"):
        next(third)
    first.close()
    assert list(second)[-1]["trace"].steps
    assert list(small.run(make_task(), compare=False))[-1]["trace"].steps


def test_who_waits_is_served_in_the_order_of_coming_and_told_how_many_come_first(
    studio: Studio,
) -> None:
    runs = [studio.run(make_task(max_new_tokens=64), compare=False) for _ in range(4)]
    assert "begun" in next(runs[0])
    said = [next(run)["view"]["status"] for run in runs[1:]]
    assert said == [
        "Waiting for another run to end …",
        *(f"Waiting for a turn: {n} runs come first …" for n in (2, 3)),
    ]
    runs[1].close()
    assert next(runs[3])["view"]["status"] == "Waiting for a turn: 2 runs come first …"
    runs[0].close()
    assert "begun" in next(runs[2])
    assert next(runs[3])["view"]["status"] == "Waiting for another run to end …"
    runs[2].close()
    assert "begun" in next(runs[3])
    runs[3].close()


def test_runs_that_wait_at_once_do_not_spend_one_budget_twice() -> None:
    studio = Studio(Models(lambda _: small_pair()), Limits(tokens=20))
    studio.models.ask("").result()
    first, second = (studio.run(make_task(), compare=False, visitor="a") for _ in range(2))
    next(first)
    next(second)
    list(first)
    with pytest.raises(InvalidInput, match="may have 20 tokens in an hour; you have had 12"):
        list(second)
    assert list(studio.run(make_task(), compare=False, visitor="b"))[-1]["trace"].steps


@pytest.mark.parametrize("name", [[], None, {"a": 1}, 3])
def test_an_event_that_names_nothing_is_answered_with_words(name: Any) -> None:
    with pytest.raises(gr.Error, match="Choose two runs to compare"):
        TracesPanel._compare(name, "heap-ouroboros", Visit())
    for answer in (race._help, learns, partial(sweep._names, optional=True)):
        with pytest.raises(gr.Error, match="method must be one of"):
            answer(name)
