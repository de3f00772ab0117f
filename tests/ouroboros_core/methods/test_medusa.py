"""Medusa: the shape of its tree is the best there is, and what hangs on it is the heads'."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ouroboros_core.methods.parts.base import Context
from ouroboros_core.methods.parts.best_first import Ranks, best_first
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from tests.seeded_models import REJECTING, SeededHeads, check_places, started

TEXT = (0, 1)


def method(sampling: Sampling, stop: frozenset[int] = frozenset(), **settings: Any) -> Any:
    heads = {"medusa": SeededHeads(5, noise=0.7)}
    sizes = {"tree_size": 8, **settings}
    return started("medusa", sizes, sampling, stop_tokens=stop, heads=heads)


def expected_length(paths: Any, accuracies: Any) -> float:
    """Tokens of a tree that are right on average, the heads' errors being independent."""
    return sum(
        float(np.prod([accuracies[place][rank] for place, rank in enumerate(path)]))
        for path in paths
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_tree_of_the_size_has_more_right_tokens_on_average(size: int, seed: int) -> None:
    """The oracle tries all trees over two heads of three ranks, in any order of accuracy."""
    accuracies = np.random.default_rng(seed).uniform(0.05, 0.9, (2, 3)).tolist()
    first = [(rank,) for rank in range(3)]
    every: list[Ranks] = [*first, *itertools.product(range(3), repeat=2)]
    best = max(
        expected_length(chosen, accuracies)
        for chosen in itertools.combinations(every, size)
        if all(path[:-1] in chosen for path in chosen if len(path) == 2)
    )
    found = best_first(accuracies, size)
    assert len(set(found)) == size
    assert all(path[:-1] in found[:n] for n, path in enumerate(found) if len(path) > 1)
    assert expected_length(found, accuracies) == pytest.approx(best)


def test_a_tree_ends_where_the_heads_have_no_more_ranks() -> None:
    assert best_first(((0.5, 0.4),), 9) == ((0,), (1,))
    assert best_first((), 9) == ()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0), REJECTING])
def test_each_node_is_the_token_of_its_rank_by_the_head_of_its_depth(sampling: Sampling) -> None:
    """The oracle sorts each head's logits; nothing is drawn, and one pass does for all levels."""
    made = method(sampling)
    heads = made.heads
    tree = made.propose(Context(TEXT, 50, 0))
    wanted = set()
    for path in best_first(SeededHeads.accuracies, 8):
        best = [np.argsort(-heads.after((TEXT[-1], 100 + depth))) for depth in range(len(path))]
        wanted.add(tuple(int(best[depth][rank]) for depth, rank in enumerate(path)))
    found = {tuple(tree.tokens_to(node)) for node in range(1, len(tree))}
    assert found == wanted
    assert heads.passes == 1
    assert all(tree.drawn_from(node) is None for node in range(len(tree)))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=4), REJECTING])
@pytest.mark.parametrize("size", [3, 5])
def test_no_other_tree_of_a_step_has_a_larger_sum_of_products(
    size: int, sampling: Sampling
) -> None:
    """The oracle tries all trees over three places; by `match` the noise of a position counts."""
    made = method(sampling, shape="best_first", tree_size=size, tree_depth=3)
    heads, tree = made.heads, made.propose(Context(TEXT, 50, 0))
    chances = []
    for place in range(3):
        logits = heads.after((TEXT[-1], 100 + place))
        if sampling.temperature and not sampling.rule.needs_probabilities:
            logits = process(logits, sampling) + Sampler(sampling, 6).noise(len(TEXT) + place)
        chances.append(softmax(logits))
    likely = [np.argsort(-row)[:3].tolist() for row in chances]
    every = [path for depth in (1, 2, 3) for path in itertools.product(*likely[:depth])]
    value = {
        path: float(np.prod([chances[n][token] for n, token in enumerate(path)])) for path in every
    }
    best = max(
        sum(value[path] for path in chosen)
        for chosen in itertools.combinations(sorted(every, key=lambda p: -value[p])[:12], size)
        if all(len(path) == 1 or path[:-1] in chosen for path in chosen)
    )
    found = [tuple(tree.tokens_to(node)) for node in range(1, len(tree))]
    assert len(found) == size
    assert sum(value[path] for path in found) == pytest.approx(best)
    assert all(tree.drawn_from(node) is None for node in range(len(tree)))


def test_a_branch_ends_at_a_stop_token_at_the_end_of_the_text_and_at_the_last_level() -> None:
    whole = method(Sampling()).propose(Context(TEXT, 50, 0))
    stop = next(whole.tokens[n] for n in range(1, len(whole)) if whole.children(n))
    tree = method(Sampling(), frozenset({stop})).propose(Context(TEXT, 50, 0))
    assert not any(tree.children(n) for n in range(1, len(tree)) if tree.tokens[n] == stop)
    assert max(method(Sampling()).propose(Context(TEXT, 2, 0)).depths) == 1
    assert len(method(Sampling()).propose(Context(TEXT, 1, 0))) == 1
    assert max(method(Sampling(), tree_depth=1).propose(Context(TEXT, 50, 0)).depths) == 1


def test_drafted_corrected_and_bonus_tokens_follow_the_target() -> None:
    check_places(method(REJECTING, tree_size=4), REJECTING)
    check_places(method(REJECTING, tree_size=4, shape="best_first"), REJECTING)
