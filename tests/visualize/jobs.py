"""Jobs for tests: runs with tiny models."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.loading.pairs import Pair
from tests import tiny
from visualize.server.jobs import Update, Waiting
from visualize.server.runner import Runner
from visualize.watch.job import Finished, RunJob


def letters() -> Pair:
    """Return a tiny pair with one letter for each token id."""
    ids = {chr(97 + n): n for n in range(tiny.VOCABULARY)}
    model = Tokenizer(WordLevel(ids, unk_token="a"))
    model.pre_tokenizer, model.decoder = Split("", "isolated"), Fuse()
    target, draft = tiny.pair("llama")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model)
    return Pair(target, draft, tokenizer, frozenset())


def make_task(prompt: str = "the cat sat", method: str = "speculative", **changes: Any) -> Task:
    return Task(
        prompt,
        method,
        methods.get(method).Hyperparameters(),
        **{"max_new_tokens": 12, "chat": False, **changes},
    )


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
