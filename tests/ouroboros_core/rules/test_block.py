"""Block verification: exact by enumeration, and never worse than token by token."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.rules.block import Block, block_chances
from ouroboros_core.rules.rejection import Rejection
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Probabilities, Provenance, TokenTree, TreeBuilder
from tests.seeded_models import (
    CHI_SQUARE,
    HIGH,
    SeededModel,
    Trials,
    chi_square,
    distribution,
    fixed,
    keyed,
    target,
)

DRAFT = Provenance(Source.DRAFT)
SIZE, LENGTH = 3, 3
"""Tokens of the vocabulary, and of a drafted chain."""


class Models:
    """Random p and q after every text, by seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def p(self, text: Sequence[int]) -> Probabilities:
        return distribution((self.seed, 1, *text, 7), SIZE)

    def q(self, text: Sequence[int]) -> Probabilities:
        return distribution((self.seed, 2, *text, 7), SIZE)

    def chain(self, tokens: Sequence[int]) -> TokenTree:
        """A chain that was drawn from q."""
        builder = TreeBuilder(0)
        for n, token in enumerate(tokens):
            builder.add(token, n, DRAFT, self.q(tokens[:n]))
        return builder.build()

    def after(self, tree: TokenTree) -> Any:
        """The target's p after a node of a tree."""
        return lambda node: self.p(tree.tokens_to(node))

    def drawn(self, tokens: Sequence[int]) -> float:
        """The probability that the draft draws these."""
        return float(np.prod([self.q(tokens[:n])[token] for n, token in enumerate(tokens)]))

    def written(self, tokens: Sequence[int]) -> float:
        """The probability that the target writes these."""
        return float(np.prod([self.p(tokens[:n])[token] for n, token in enumerate(tokens)]))

    def facts(self, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
        lengths = range(len(tokens))
        p, q = ([chances(tokens[:n]) for n in lengths] for chances in (self.p, self.q))
        return block_chances(p, q, tokens)


def emissions(models: Models) -> dict[tuple[int, ...], float]:
    """The probability of everything that one step may emit: each draft, cut at each place by the
    rule itself, with random numbers that cut it there."""
    emitted: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for tokens in itertools.product(range(SIZE), repeat=LENGTH):
        tree, (_, chances) = models.chain(tokens), models.facts(tokens)
        for length in range(LENGTH + 1):
            passes = [chances[length - 1]] if length else []
            share = float(np.prod([*passes, *(1 - chance for chance in chances[length:])]))
            if share < 1e-12:  # a token with nearly probability 1 also passes HIGH
                continue
            numbers = [0.0 if n == length else HIGH for n in range(1, LENGTH + 1)]
            trials = Trials()
            path, _ = Block().judge(tree, target(models.after(tree), fixed(*numbers)), trials)
            assert len(path) == length
            left = trials.left_after[length] if length < LENGTH else models.p(tokens)
            for token in range(SIZE):
                chance = models.drawn(tokens) * share * float(left[token])
                emitted[(*tokens[:length], token)] += chance
    return emitted


@pytest.mark.parametrize("seed", range(12))
def test_every_text_has_exactly_the_targets_probability(seed: int) -> None:
    """Every draft, cut and correction is enumerated; the target alone completes shorter texts."""
    models = Models(seed)
    emitted_by_step = emissions(models)
    for text in itertools.product(range(SIZE), repeat=LENGTH + 1):
        emitted = sum(
            emitted_by_step[text[:n]] * models.written(text) / models.written(text[:n])
            for n in range(1, LENGTH + 2)
        )
        assert emitted == pytest.approx(models.written(text), rel=1e-9)


def expected(models: Models) -> tuple[float, float]:
    """Tokens of a draft that are accepted in expectation: as a block, and token by token."""
    block = token = 0.0
    for tokens in itertools.product(range(SIZE), repeat=LENGTH):
        _, chances = models.facts(tokens)
        single = 1.0
        for n in range(LENGTH):
            single *= min(1.0, models.p(tokens[:n])[tokens[n]] / models.q(tokens[:n])[tokens[n]])
            token += models.drawn(tokens) * single
            block += models.drawn(tokens) * float(1 - np.prod([1 - c for c in chances[n:]]))
    return block, token


def test_a_block_never_has_fewer_accepted_tokens_in_expectation() -> None:
    """Over random models, by enumeration of all drafts (arXiv 2403.10444, theorem 2)."""
    pairs = [expected(Models(seed)) for seed in range(60)]
    assert all(block > token - 1e-12 for block, token in pairs)
    assert sum(block > token + 1e-6 for block, token in pairs) > 50


@pytest.mark.parametrize("seed", range(5))
def test_the_weight_of_some_tokens_is_the_probability_that_at_least_they_are_accepted(
    seed: int,
) -> None:
    """The identity that the proof rests on: of the drafts that begin with some tokens, the share
    in which at least these tokens are accepted equals their weight."""
    models = Models(seed)
    for n in range(1, LENGTH + 1):
        for start in itertools.product(range(SIZE), repeat=n):
            accepted = 0.0
            for rest in itertools.product(range(SIZE), repeat=LENGTH - n):
                _, chances = models.facts((*start, *rest))
                share = models.drawn((*start, *rest)) / models.drawn(start)
                accepted += share * float(1 - np.prod([1 - c for c in chances[n - 1 :]]))
            assert accepted == pytest.approx(models.facts(start)[0][n], rel=1e-9)


def test_a_chain_is_judged_with_the_random_numbers_of_its_first_position_alone() -> None:
    """A later position is judged again at the next step, if the chain is cut before it."""
    models = Models(3)
    positions: list[int] = []

    def generator(node: int) -> Any:
        positions.append(node)
        return np.random.default_rng(len(positions))

    for tokens in itertools.product(range(SIZE), repeat=LENGTH):
        tree = models.chain(tokens)
        Block().judge(tree, target(models.after(tree), generator))
    assert set(positions) == {0}


@pytest.mark.parametrize("where", ["before", "beside", "behind"])
def test_phrases_beside_a_block_and_behind_it_keep_the_targets_probabilities(where: str) -> None:
    """Counts of the first two tokens over 30,000 drafts; a phrase stands before the drafted token,
    beside it, or behind the chain."""
    models, random, runs = Models(8), np.random.default_rng(2), 30_000
    counts: Counter[tuple[int, int]] = Counter()
    for _ in range(runs):
        builder = TreeBuilder(0)
        if where == "before":
            builder.add_path([1, 2], 0, Provenance(Source.PHRASE))
        first = int(random.choice(SIZE, p=models.q(())))
        node = builder.add(first, 0, DRAFT, models.q(()))
        assert node is not None
        if where == "beside":
            builder.add_path([1, 2], 0, Provenance(Source.PHRASE))
        if where == "behind":
            builder.add_path([0, 1], node, Provenance(Source.SUFFIX))
        tree = builder.build()
        path, token = Block().judge(tree, target(models.after(tree), lambda _: random))
        text = [*(tree.tokens[accepted] for accepted in path), token]
        while len(text) < 2:
            text.append(int(random.choice(SIZE, p=models.p(text))))
        counts[text[0], text[1]] += 1
    texts = [(first, second) for first in range(SIZE) for second in range(SIZE)]
    expected_counts = [runs * models.written(text) for text in texts]
    assert chi_square([counts[text] for text in texts], expected_counts) < CHI_SQUARE[SIZE**2 - 1]


def test_several_drawn_children_are_judged_as_by_rejection_sampling() -> None:
    """The oracle is that rule with the same random numbers."""
    models, seeds = Models(4), range(300)
    builder = TreeBuilder(0)
    for token in (0, 2):
        builder.add(token, 0, DRAFT, models.q(()))
    tree = builder.build()
    results = [
        rule.judge(tree, target(models.after(tree), keyed(seed)))
        for rule in (Block(), Rejection())
        for seed in seeds
    ]
    assert results[: len(seeds)] == results[len(seeds) :]
    assert len(set(results)) > 2


def test_through_the_loop_a_block_has_more_accepted_tokens_and_the_targets_probabilities() -> None:
    """Pairs of tokens, where they lie, against the target's own probabilities; the mean length
    against rejection sampling's."""
    model, accepted = SeededModel(5), {}
    for rule in ("rejection", "block"):
        sampler = Sampler(Sampling(temperature=1.0, seed=2, acceptance=rule), 6)
        kind = methods.get("speculative")
        resources = Resources(sampler, SeededModel(5, noise=0.9))
        method = kind(kind.Hyperparameters.parse({"gamma": 4}), resources)
        steps = list(decode(model, method, [0], max_new_tokens=20_000, sampler=sampler))
        accepted[rule] = sum(len(step.path) for step in steps) / len(steps)
    text = [0, *(token for step in steps for token in step.tokens)]
    after: dict[tuple[int, int], Counter[int]] = {}
    for n in range(2, len(text)):
        after.setdefault((text[n - 2], text[n - 1]), Counter())[text[n]] += 1
    worst = 0.0
    for last, counts in after.items():
        p = np.exp(model.after(last)) / np.exp(model.after(last)).sum()
        if counts.total() * p.min() > 5:
            statistic = chi_square([counts[t] for t in range(6)], counts.total() * p)
            worst = max(worst, statistic)
    assert 0 < worst < CHI_SQUARE[5]
    assert accepted["block"] > accepted["rejection"]
