"""SpecTr: K-SEQ is exact by enumeration, and several chains are worth more than one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ouroboros_core.methods.parts.base import Context
from ouroboros_core.rules.parts.candidates import k_seq_residual, k_seq_rho
from ouroboros_core.rules.rejection import Rejection
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Notes, Provenance, TokenTree, TreeBuilder
from tests.seeded_models import check_places, distribution, law_of_first, started, target

DRAFT = Provenance(Source.DRAFT)
PAIRS = [(seed, draws) for seed in range(8) for draws in (2, 3, 4)]


def drawn(tokens: Any, q: Any) -> TokenTree:
    builder = TreeBuilder(9)
    for turn, token in enumerate(tokens):
        builder.draw(int(token), 0, DRAFT, turn, q)
    return builder.build()


@pytest.mark.parametrize(("seed", "draws"), PAIRS)
def test_the_emitted_token_has_exactly_the_targets_probability(seed: int, draws: int) -> None:
    """All tuples of draws are enumerated, each judged by the rule itself."""
    size = 4
    p, q = distribution((seed, 1), size), distribution((seed, 2), size)
    emitted = np.zeros(size)
    for tokens in itertools.product(range(size), repeat=draws):
        emitted += float(np.prod(q[list(tokens)])) * law_of_first(drawn(tokens, q), p)[0]
    assert emitted == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize(("seed", "draws"), PAIRS)
def test_rho_is_the_smallest_factor_that_keeps_the_targets_probabilities(
    seed: int, draws: int
) -> None:
    """The oracle tries a thousand factors: with too small a one some token comes too often."""
    p, q = distribution((seed, 3), 5), distribution((seed, 4), 5)

    def valid(rho: float) -> bool:
        kept = np.minimum(q, p / rho)
        beta = kept.sum()
        return bool(np.all(kept * (1 - (1 - beta) ** draws) / beta <= p + 1e-12))

    tried = np.linspace(1, draws, 1001)
    smallest = next(rho for rho in tried if valid(rho))
    found = k_seq_rho(p, q, draws)
    assert smallest - (draws - 1) / 1000 - 1e-9 <= found <= smallest + 1e-9


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_where_both_models_agree_or_never_do_nothing_is_lost(draws: int) -> None:
    """The oracle is the definition: equal models accept for sure, disjoint ones leave p
    alone."""
    p = distribution((1,), 5)
    assert k_seq_rho(p, p, draws) == pytest.approx(1.0)
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])
    rho = k_seq_rho(p, q, draws)
    assert 1 <= rho <= draws
    assert k_seq_residual(p, q, draws, rho).tolist() == p.tolist()


def test_more_draws_are_accepted_at_least_as_often_as_one() -> None:
    """sum min(p, rho q) by K-SEQ against sum min(p, q) of one draw, over random models; counts of
    the rule agree with it."""
    for seed in range(200):
        p, q = distribution((seed, 5), 6), distribution((seed, 6), 6)
        rates = [np.minimum(p, k_seq_rho(p, q, draws) * q).sum() for draws in (1, 2, 3, 4, 8)]
        assert rates[0] == pytest.approx(np.minimum(p, q).sum())
        assert all(low < high + 1e-9 for low, high in itertools.pairwise(rates))
    random, runs = np.random.default_rng(1), 5000
    trees = (drawn(random.choice(6, size=3, p=q), q) for _ in range(runs))
    answers = target(lambda _: p, lambda _: random)
    kept = sum(len(Rejection().judge(tree, answers)[0]) for tree in trees)
    rate = np.minimum(p, k_seq_rho(p, q, 3) * q).sum()
    assert abs(kept / runs - rate) < 4 * (rate * (1 - rate) / runs) ** 0.5


def method(sampling: Sampling, **settings: Any) -> Any:
    return started("spectr", {"gamma": 3, **settings}, sampling)


def test_chains_with_equal_beginnings_share_their_nodes_and_every_draw_is_noted() -> None:
    """Of K chains K draws reach every depth, and siblings differ."""
    one = method(Sampling(temperature=1.0, acceptance="rejection"), chains=6)
    shared = 0
    for step in range(20):
        tree = one.propose(Context((0, 1), 50, step))
        for node in range(len(tree)):
            tokens = [tree.tokens[child] for child in tree.children(node)]
            assert len(tokens) == len(set(tokens))
            reaching = 6 if node == 0 else len(tree.turns(node))
            assert len(tree.draws(node)) == (reaching if tree.depths[node] < 3 else 0)
            shared += reaching > 1 and node > 0
        assert one.draft.model.passes == 3 * (step + 1)
    assert shared > 10


def test_what_was_drawn_survives_cutting_and_merging_a_tree() -> None:
    """The oracle is the tree before."""
    q = distribution((1,), 6)
    tree = drawn([3, 1, 3, 5], q)
    assert [tree.tokens[node] for node in tree.draws(0)] == [3, 1, 3, 5]
    kept = tree.only([1, 2, 3])
    assert [kept.tokens[node] for node in kept.draws(0)] == [3, 1, 3, 5]
    builder = TreeBuilder(9)
    builder.add(1, 0, Provenance(Source.COPY))
    builder.graft(tree)
    merged = builder.build()
    assert [merged.tokens[node] for node in merged.draws(0)] == [3, 1, 3, 5]
    assert len(merged.children(0)) == 4, "the copy is judged beside the drawn token"
    notes = Notes()
    notes.take(tree, [(1, 7), (2, None)])
    assert notes.turns == {7: (0, 2)}


def test_greedy_all_chains_are_one() -> None:
    """The oracle is speculative decoding."""
    drafters = (method(Sampling()), started("speculative", {"gamma": 3}))
    trees = [drafter.propose(Context((0, 1), 50, 0)) for drafter in drafters]
    assert trees[0].tokens == trees[1].tokens and trees[0].parents == trees[1].parents


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_drafted_corrected_and_bonus_tokens_follow_the_target(rule: str) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on."""
    sampling = Sampling(temperature=1.0, seed=4, acceptance=rule)
    check_places(method(sampling), sampling)
