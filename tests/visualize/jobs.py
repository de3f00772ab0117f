"""Jobs for tests: runs with tiny models."""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.loading.pairs import Pair
from tests import tiny
from tests.folders import small_pair
from visualize.server.jobs import Update, Waiting
from visualize.server.models import Models
from visualize.server.runner import Runner
from visualize.watch.job import Finished, RunJob


def letters() -> Pair:
    """Return a tiny pair with one letter for each token id."""
    return Pair(*tiny.pair("llama"), tiny.letters(), frozenset())


def ready(*limits: Any, make: Callable[[], Pair] = small_pair, **more: Any) -> Runner:
    """Return a runner with tiny models that are loaded."""
    runner = Runner(Models(lambda _: make()), *limits, **more)
    runner.models.ask("").result()
    return runner


def make_task(prompt: str = "the cat sat", method: str = "speculative", **changes: Any) -> Task:
    settings = methods.get(method).Hyperparameters()
    return Task(prompt, method, settings, **{"max_new_tokens": 12, "chat": False, **changes})


def run(
    runner: Runner,
    task: Task,
    compare: bool,
    memory: Callable[[Pair], Any] | None = None,
    visitor: str = "",
) -> Generator[Update, None, None]:
    return runner.submit(RunJob(task, compare, find_memory=memory), visitor=visitor)


def ending(updates: Iterable[Update]) -> Finished:
    """Return how a run ends."""
    *_, last = updates
    assert isinstance(last, Finished)
    return last


def waits_for(update: Update) -> str:
    """Return the status of an update that waits."""
    assert isinstance(update, Waiting)
    return update.status
