"""What methods keep from text to text changes the passes, never the text."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import Memories, Memory, read_memory
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.session_text import Answers, SessionText
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import Learned
from tests import tiny

ABLE = [kind.id for kind in methods.available().values() if Need.MEMORY in kind.uses]
COUNT = 40
SETTINGS: dict[str, Any] = {
    "gamma": 2,
    "window_size": 4,
    "ngram_size": 5,
    "guess_set_size": 30,
    "top_k_suffixes": 10,
}


def settings_of(method: str) -> dict[str, Any]:
    known = methods.get(method).Hyperparameters.settings()
    return {name: value for name, value in SETTINGS.items() if name in known}


def run(method: str, memory: Memory | None, seed: int = 7, count: int = COUNT) -> list[Step]:
    """The steps behind a prompt; without a corpus, which holds what the target writes there."""
    models, settings = tiny.pair("llama", "sdpa"), settings_of(method)
    text = tiny.prompt(seed=seed)
    return tiny.run(models, method, text, count, memory=memory, retrieve=False, **settings)


def accepted(steps: list[Step]) -> int:
    return sum(len(step.path) for step in steps)


def passes(steps: list[Step]) -> int:
    return sum(1 + step.draft_passes for step in steps)


def test_whoever_can_be_warm_has_a_memory_and_nobody_else() -> None:
    for kind in methods.available().values():
        made = kind.new_memory(kind.Hyperparameters(), "print")
        assert (made is not None) == (Need.MEMORY in kind.uses), kind.id
        assert made is None or (made.fingerprint, made.runs, made.largest_token) == ("print", 0, -1)
    assert {"lookahead", "ouroboros", "prompt_lookup", "token_recycling", "sam", "union"} <= {*ABLE}


@pytest.mark.parametrize("method", ABLE)
def test_a_warm_series_has_the_texts_of_a_cold_one_and_asked_again_fewer_passes(
    method: str,
) -> None:
    """The oracle of the texts is a plain forward pass. What comes from an earlier run says so."""
    memory, target = tiny.new_memory(method, **settings_of(method)), tiny.target("llama", "sdpa")
    cold = {seed: run(method, None, seed) for seed in (7, 8)}
    warm = [run(method, memory, seed) for seed in (7, 8, 7)]
    for steps, seed in zip(warm, (7, 8, 7), strict=True):
        assert tiny.emitted(steps) == tiny.plain(target, tiny.prompt(seed=seed), COUNT)
        assert tiny.emitted(steps) == tiny.emitted(cold[seed])
    again = warm[2]
    assert accepted(again) > accepted(cold[7])
    assert len(again) < len(cold[7]), "tokens per pass have not risen"
    assert passes(again) < passes(cold[7])
    said = [[(step.tree, step.path) for step in steps] for steps in (warm[0], cold[7])]
    assert said[0] == said[1], "an empty memory is a cold start"
    assert memory.runs == 3
    origins = [[p for step in steps for p in step.tree.provenance] for steps in warm]
    recalled = [sum(p.learned is Learned.HISTORY for p in found) for found in origins]
    assert recalled[0] == 0 < recalled[2]
    copies = [p for found in origins for p in found if p.source is Source.COPY]
    assert all((p.learned is Learned.HISTORY) == (p.position is None) for p in copies)
    assert all(p.position < 12 + COUNT for p in copies if p.position is not None)


@pytest.mark.parametrize("method", ABLE)
def test_a_memory_read_again_proposes_what_the_kept_one_does(method: str) -> None:
    """So that an interrupted benchmark goes on as it would have; and a worker's copy, too."""
    memory = tiny.new_memory(method, **settings_of(method))
    run(method, memory, count=16)
    others = [read_memory(memory.to_json()), pickle.loads(pickle.dumps(memory))]
    wanted = [step.tree for step in run(method, memory, count=16)]
    for other in others:
        assert [step.tree for step in run(method, other, count=16)] == wanted
        assert other.to_json() == memory.to_json()


@pytest.mark.parametrize(
    ("method", "setting", "indexes"),
    [
        ("suffix", "max_depth", 1),
        ("prompt_lookup", "max_ngram", 1),
        ("ngram_tables", "min_hits", 2),
    ],
)
def test_a_memory_has_no_index_for_each_setting_that_was_tried(
    method: str, setting: str, indexes: int
) -> None:
    """`ngram_tables` has the counts for its kind `cache` beside the table of its own."""
    memory = tiny.new_memory(method)
    for value in (2, 3, 4, 2):
        settings: dict[str, Any] = {setting: value}
        steps = tiny.run(tiny.pair("llama"), method, tiny.prompt(), 8, memory=memory, **settings)
        assert tiny.emitted(steps) == tiny.plain(tiny.target("llama"), tiny.prompt(), 8)
    assert isinstance(memory, SessionText) and len(memory._indexes) == indexes


def test_members_keep_what_is_theirs_by_their_role() -> None:
    memory = Memories("print")
    settings: dict[str, Any] = {"window_size": 2}
    tiny.run(tiny.pair("llama"), "union", tiny.prompt(), 8, memory=memory, **settings)
    kinds = {role: type(part) for role, part in memory.parts.items()}
    assert kinds == {
        "draft/ouroboros": PhrasePool,
        "copies": SessionText,
        "recycled/token_recycling": Successors,
        "window/lookahead": PhrasePool,
    }
    assert {part.fingerprint for part in memory.parts.values()} == {"print"}
    settings = {"auxiliary": "none"}
    alone = tiny.new_memory("sam", **settings)
    tiny.run(tiny.pair("llama"), "sam", tiny.prompt(), 8, memory=alone, **settings)
    assert isinstance(alone, Memories) and alone.parts.keys() == {"copies"}


def test_runs_count_whichever_members_were_asked() -> None:
    """Under rejection sampling a run's noise is that of its number: no two may have the same, even
    where the settings leave a member out."""
    memory = Memories()
    for number, copying in enumerate((True, False, True), 1):
        models = tiny.pair("llama")
        tiny.run(models, "union", tiny.prompt(), 8, memory=memory, copying=copying)
        assert memory.runs == number


@pytest.mark.parametrize(
    ("method", "memory", "message"),
    [
        ("ouroboros", SessionText(), "is a session text, but this method keeps a phrase pool"),
        ("token_recycling", PhrasePool(5, 4), "is a phrase pool, but this method keeps a matrix"),
        ("prompt_lookup", Memories(), "is a memory of several methods, but this method keeps a s"),
        ("sam", Successors(8), "is a matrix of candidates, but this method keeps a memory of se"),
        ("prompt_lookup", Answers(), "is a memory of earlier answers, but this method keeps a ses"),
        ("ngram_tables", Answers(), "is a memory of earlier answers, but this method keeps a sess"),
        ("suffix", SessionText(), "is a session text, but this method keeps a memory of earlier"),
        ("union", PhrasePool(5, 4), "is a phrase pool, but this method keeps a memory of several"),
    ],
)
def test_the_memory_of_another_method_is_refused(method: str, memory: Memory, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"{message}.*: start a new one"):
        run(method, memory)


def test_what_an_older_version_wrote_is_read() -> None:
    text = json.dumps(
        {
            "format": "ouroboros-phrase-pool",
            "version": 1,
            "ngram_size": 3,
            "guess_set_size": 2,
            "max_keys": 50_000,
            "runs": 4,
            "fingerprint": "print",
            "phrases": [[7, [[8, 9], [8, 8]]]],
        }
    )
    pool = read_memory(text, "print")
    assert isinstance(pool, PhrasePool)
    assert [phrase.tokens for phrase in pool.newest(7, 9)] == [(8, 8), (8, 9)]
    assert (pool.runs, pool.largest_token) == (4, 9)
