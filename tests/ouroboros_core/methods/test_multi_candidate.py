"""Multi-candidate speculative decoding: the shape of its trees, and drawing without replacement."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.multi_candidate import PUBLISHED
from ouroboros_core.methods.parts.base import Context
from ouroboros_core.sampling import Sampling, softmax, without
from ouroboros_core.settings import read_settings
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder
from tests.seeded_models import (
    CHI_SQUARE,
    REJECTING,
    check_places,
    chi_square,
    distribution,
    law_of_first,
    started,
)

KIND = methods.get("multi_candidate")
TEXT = (0, 1)


def method(sampling: Sampling, config: str, stop: frozenset[int] = frozenset()) -> Any:
    return started("multi_candidate", {"k_config": config}, sampling, stop_tokens=stop)


@pytest.mark.parametrize("rule", ["greedy", "match", "rejection"])
def test_the_tree_is_the_product_of_the_counts_and_siblings_differ(rule: str) -> None:
    sampling = Sampling() if rule == "greedy" else Sampling(temperature=1.0, acceptance=rule)
    made = method(sampling, "3,2,1")
    tree = made.propose(Context(TEXT, 50, 0))
    assert Counter(tree.depths) == {0: 1, 1: 3, 2: 6, 3: 6}
    assert made.draft.model.passes == 3
    for node in range(len(tree)):
        tokens = [tree.tokens[child] for child in tree.children(node)]
        assert len(tokens) == len(set(tokens)) == {0: 3, 1: 2, 2: 1, 3: 0}[tree.depths[node]]


def test_greedy_the_candidates_are_the_drafts_likeliest_tokens_best_first() -> None:
    """The oracle sorts the draft's logits after each node."""
    made = method(Sampling(), "3,2")
    tree = made.propose(Context(TEXT, 50, 0))
    for node in range(len(tree)):
        path = tree.tokens_to(node)
        best = np.argsort(-made.draft.model.after((*TEXT, *path))).tolist()
        children = [tree.tokens[child] for child in tree.children(node)]
        assert children == best[: len(children)]


def test_a_branch_ends_at_a_stop_token_and_at_the_end_of_the_text() -> None:
    tree = method(Sampling(), "6,2", frozenset({3})).propose(Context(TEXT, 50, 0))
    assert all(tree.children(n) for n in tree.children(0) if tree.tokens[n] != 3)
    assert not any(tree.children(n) for n in tree.children(0) if tree.tokens[n] == 3)
    short = method(Sampling(), "4,2,2").propose(Context(TEXT, 2, 0))
    assert max(short.depths) == 1


def test_candidates_are_drawn_without_replacement() -> None:
    """Ordered pairs against q(a) q(b) / (1 - q(a)), over 20,000 steps."""
    made, runs = method(REJECTING, "2"), 20_000
    q = softmax(made.draft.model.after(TEXT))
    counts: Counter[tuple[int, ...]] = Counter()
    for step in range(runs):
        tree = made.propose(Context(TEXT, 50, step))
        first, second = tree.children(0)
        counts[tree.tokens[first], tree.tokens[second]] += 1
        if step < 50:
            rest = without(q, tree.tokens[first])
            assert tree.drawn_from(first) == pytest.approx(q)
            assert tree.drawn_from(second) == pytest.approx(rest)
            assert rest[tree.tokens[first]] == 0 and rest.sum() == pytest.approx(1)
    pairs = list(itertools.permutations(range(6), 2))
    wanted = [runs * q[a] * q[b] / (1 - q[a]) for a, b in pairs]
    assert chi_square([counts[pair] for pair in pairs], wanted) < CHI_SQUARE[29]


@pytest.mark.parametrize(("seed", "count"), list(itertools.product(range(8), (1, 2, 3))))
def test_the_emitted_token_has_exactly_the_targets_probability(seed: int, count: int) -> None:
    """All orders in which candidates may be drawn are enumerated, each judged by the rule."""
    size = 4
    p, q = distribution((seed, 1), size), distribution((seed, 2), size)
    emitted, accepted = np.zeros(size), 0.0
    for tokens in itertools.permutations(range(size), count):
        builder, chance, rest = TreeBuilder(9), 1.0, q
        for token in tokens:
            builder.add(token, 0, Provenance(Source.DRAFT), rest)
            chance, rest = chance * float(rest[token]), without(rest, token)
        law, drafted = law_of_first(builder.build(), p)
        emitted += chance * law
        accepted += chance * drafted
    assert emitted == pytest.approx(p, rel=1e-8)
    assert accepted > np.minimum(p, q).sum() - 1e-9, "one candidate alone"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "config"),
    [("rejection", "2,2"), ("block", "2,2"), ("rejection", "1,2,1"), ("block", "3,1,1")],
)
def test_drafted_corrected_and_bonus_tokens_follow_the_target(rule: str, config: str) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on."""
    sampling = REJECTING.model_copy(update={"acceptance": rule})
    check_places(method(sampling, config), sampling)


def test_a_configuration_is_read_with_commas_or_crosses() -> None:
    parse = KIND.Hyperparameters.parse
    assert parse({}).model_dump() == {"k_config": "auto"}
    assert parse({"k_config": " 4, 2 ,2"}).model_dump() == PUBLISHED
    assert parse(read_settings("k_config=4x2x2")).model_dump() == PUBLISHED


@pytest.mark.parametrize(
    "config", ["", "0", "9", "4,,2", "a", "4,-2", "1,1,1,1,1,1,1", "8,8", "4.5", "²"]
)
def test_another_configuration_is_refused_with_what_is_allowed(config: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        KIND.Hyperparameters.parse({"k_config": config})
    assert str(caught.value) == (
        "k_config must be auto, or one to 6 numbers between 1 and 8 for at most 63 nodes, as in "
        f"4,2,2, got {config}"
    )
