"""The method around the n-gram tables: every kind writes the target's text and drafts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ouroboros_core.lookup.memory import read_memory
from ouroboros_core.lookup.session_text import SessionText
from ouroboros_core.methods.ngram_tables import NgramTables
from ouroboros_core.methods.parts.base import (
    Context,
    Resources,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Learned
from tests import tiny

KINDS: dict[str, dict[str, Any]] = {
    "simple": {},
    "map-k": {"min_hits": 2},
    "map-k4v": {"num_tokens": 2},
    "mod": {"min_tokens": 2},
    "cache": {},
}


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.3, seed=3)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_plain_decodings_and_something_is_accepted(
    kind: str, sampling: Sampling
) -> None:
    models = tiny.pair("llama")
    text = tiny.prompt()
    text = [*text, *tiny.plain(models[0].model, text, 40), *text]
    settings = {"kind": kind, "ngram_size": 2, **KINDS[kind]}
    steps = tiny.run(models, "ngram_tables", text, 40, sampling, **settings)
    assert tiny.emitted(steps) == tiny.plain(models[0].model, text, 40, sampling)
    assert sum(len(step.path) for step in steps) > 0


def test_earlier_texts_draft_for_every_kind_with_its_own_marks() -> None:
    text = (1, 2, 3, 4, 5)
    for kind in KINDS:
        sizes = {"ngram_size": 2, "num_tokens": 2, "min_tokens": 1}
        memory = SessionText()
        for _ in range(4):
            memory.begin_run((7, 7))
            memory.follow((7, 7, *text))
        chosen: Any = NgramTables.Hyperparameters.parse({"kind": kind, **sizes})
        method = NgramTables(chosen, Resources(memory=memory))
        method.start(TokenizedPrompt((9, 1, 2)), 20)
        tree = method.propose(Context((9, 1, 2), 20, 0))
        assert tree.tokens == (2, 3, 4), kind
        copies = kind in ("simple", "map-k")
        assert (tree.provenance[1].learned is Learned.HISTORY) == copies
        assert memory.texts[-1] == [9, 1, 2]


def test_a_copy_says_where_it_stands_and_a_count_does_not() -> None:
    text = (1, 2, 3, 4, 1, 2)
    sizes = {"ngram_size": 2, "num_tokens": 2}
    for kind, position in (("simple", 2), ("mod", None)):
        method = NgramTables(NgramTables.Hyperparameters(kind=kind, **sizes), Resources())
        method.start(TokenizedPrompt(text), 20)
        tree = method.propose(Context(text, 20, 0))
        assert tree.tokens == (2, 3, 4)
        assert tree.provenance[1].position == position


def test_a_table_hears_only_of_the_tokens_that_were_checked() -> None:
    """The controller left out the last two of four, in a combination that left out none."""
    text, sizes = (1, 2, 3, 4, 1), {"ngram_size": 1, "num_tokens": 4}
    method = NgramTables(NgramTables.Hyperparameters(kind="map-k", **sizes), Resources())
    method.start(TokenizedPrompt(text), 20)
    context = Context(text, 20, 0)
    tree = method.propose(context)
    assert tree.tokens == (1, 2, 3, 4, 1)
    evaluation: Any = None
    shorter = tree.only([1, 2])
    result = VerificationResult.whole_step(context, shorter, evaluation, (1, 2), 7)
    method.learn(
        result.of(tree, {node: node for node in range(3)}).of(tree, dict(enumerate(range(5))))
    )
    method.session.follow((*text, 2, 3, 7, 1))
    assert method.propose(Context((*text, 2, 3, 7, 1), 16, 1)).tokens == (1, 2, 3, 7, 1), (
        "both checked tokens were accepted, so the next draft is whole again"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_memory_drafts_what_its_file_does_whatever_was_accepted(kind: str) -> None:
    """Six texts of three letters, of which every draft is refused."""
    rng, kept, drafted = random.Random(6), SessionText(), 0
    for _ in range(6):
        read, last = read_memory(kept.to_json()), [rng.randrange(3) for _ in range(12)]
        sizes = {"ngram_size": 1, "num_tokens": 2, "min_tokens": 1}
        both = []
        for memory in (kept, read):
            chosen: Any = NgramTables.Hyperparameters.parse({"kind": kind, **sizes})
            method = NgramTables(chosen, Resources(memory=memory))
            method.start(TokenizedPrompt(tuple(last[:3])), 20)
            drafts, text = [], tuple(last[:3])
            for token in last[3:]:
                context = Context(text, 20, 0)
                tree = method.propose(context)
                drafts.append(tree.tokens[1:])
                drafted += len(tree) > 1
                evaluation: Any = None
                method.learn(VerificationResult.whole_step(context, tree, evaluation, (), token))
                text = (*text, token)
            both.append(drafts)
        assert both[0] == both[1]
    assert drafted


def test_a_shortest_draft_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="min_tokens must be at most num_tokens, got 48 and 12"):
        NgramTables.Hyperparameters(min_tokens=48, num_tokens=12)
