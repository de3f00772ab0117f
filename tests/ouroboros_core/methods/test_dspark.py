"""DSpark: a chain from one pass, each token from its place's logits and the token before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ouroboros_core.methods.parts.base import Context, StepBudget
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.tree import TokenTree
from tests.seeded_models import (
    REJECTING,
    SeededEvaluation,
    SeededModel,
    check_choice,
    check_places,
    started,
)

TEXT = (0, 1)
RULES = [Sampling(), Sampling(temperature=0.8, seed=3), REJECTING]


class SeededBlock(SeededModel):
    """A block of random logits for the text's last token, with random corrections and chances."""

    block = 3

    def place(self, root: int, depth: int, before: int) -> Any:
        return self.after((root, 100 + depth)) + self.after((before, 200 + depth))

    def chance(self, depth: int, before: int) -> float:
        return float(np.random.default_rng([depth, before]).random())

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Any:
        self.passes += 1
        return SeededPlaces(self, tuple(context), tree)

    def extend(self, evaluation: Any, tree: TokenTree) -> Any:
        return SeededPlaces(self, evaluation.context, tree)


class SeededPlaces(SeededEvaluation):
    """The outputs of SeededBlock."""

    model: SeededBlock

    def logits(self, node: int) -> Any:
        return self.model.place(self.context[-1], self.tree.depths[node], self.tree.tokens[node])

    def acceptance(self, node: int) -> float:
        return self.model.chance(self.tree.depths[node], self.tree.tokens[node])


def method(sampling: Sampling, ends: frozenset[int] = frozenset(), **settings: Any) -> Any:
    settings = {"gamma": 3, **settings}
    heads = {"dspark": SeededBlock(5, noise=0.7)}
    return started("dspark", settings, sampling, stop_tokens=ends, heads=heads)


@pytest.mark.parametrize("confidence", [0.0, 0.25])
@pytest.mark.parametrize("sampling", RULES)
def test_each_token_is_chosen_by_its_place_and_the_token_before(
    sampling: Sampling, confidence: float
) -> None:
    """The oracle adds place and correction one by one: greedy the likeliest token; sampled by
    `match` the one that the noise of its position makes of them; q where tokens are judged by it.
    The draft ends before the first place whose chance is too small."""
    made, lengths = method(sampling, confidence=confidence), set()
    for step in range(12):
        text, passes = (*TEXT, step % 6), made.block.passes
        tree = made.propose(Context(text, 50, step))
        assert made.block.passes - passes == 1
        lengths.add(len(tree))
        for place in range(3):
            before = tree.tokens[place]
            if made.block.chance(place, before) < confidence:
                assert len(tree) == 1 + place
                break
            logits = made.block.place(text[-1], place, before)
            check_choice(tree, place + 1, logits, sampling, len(text) + place)
    assert len(lengths) > 1 if confidence else lengths == {4}


def test_a_draft_is_no_longer_than_a_block_and_ends_with_the_text_or_a_stop_token() -> None:
    assert len(method(Sampling(), gamma=9).propose(Context(TEXT, 50, 0))) == 1 + SeededBlock.block
    whole = method(Sampling()).propose(Context(TEXT, 50, 0))
    stop = whole.tokens[2]
    tree = method(Sampling(), frozenset({stop})).propose(Context(TEXT, 50, 0))
    assert tree.tokens == whole.tokens[: 2 + whole.tokens[1:].index(stop)]
    assert len(method(Sampling()).propose(Context(TEXT, 2, 0))) == 2
    assert len(method(Sampling()).propose(Context(TEXT[:1], 50, 0))) == 1


def test_a_stop_rule_counts_with_the_block() -> None:
    """transformers' heuristic shortens the draft by one after each refusal, from the block on, and
    AdaEDL's threshold stays where whole blocks are accepted."""
    made = method(Sampling(), gamma="auto", stop="hf_heuristic")
    sizes = []
    for step in range(3):
        tree = made.propose(Context(TEXT, 50, step))
        sizes.append(len(tree.proposals))
        made.stop.learn(len(tree.proposals), 0)
    assert sizes == [3, 2, 1]
    made = method(Sampling(), gamma="auto", stop="adaedl")
    before = made.stop.rule.threshold.value
    made.stop.rule.threshold.rate = 1.0
    made.stop.learn(SeededBlock.block, SeededBlock.block)
    assert made.stop.rule.threshold.value == before


class OnePass(StepBudget):
    """Allows a first pass only."""

    def __init__(self, passes: int) -> None:
        self.passes = passes

    def allows_pass(self, reach: float = 1.0, rows: int = 1) -> bool:
        self.passes -= 1
        return self.passes >= 0


def test_a_budget_is_asked_for_the_one_pass() -> None:
    for passes, size in ((1, 4), (0, 1)):
        context = Context(TEXT, 50, 0, OnePass(passes))
        assert len(method(Sampling()).propose(context)) == size


@pytest.mark.parametrize("setting", [{}, {"confidence": 0.25}, {"tree_size": 5}], ids=str)
def test_drafted_corrected_and_bonus_tokens_follow_the_target(setting: dict[str, Any]) -> None:
    check_places(method(REJECTING, gamma=2, **setting), REJECTING, 12_000)


@pytest.mark.parametrize("sampling", RULES)
def test_a_tree_holds_the_likeliest_paths_and_costs_one_pass(sampling: Sampling) -> None:
    """The oracle is the list of all paths by their product of chances; by `match` the noise of a
    position counts. No path goes on after a stop token."""
    made = method(sampling, frozenset({4}), tree_size=12)
    tree = made.propose(Context(TEXT, 50, 0))
    noise, by_match = Sampler(sampling, 6).noise, sampling == RULES[1]
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for depth in range(3):
        for path in [path for path in chances if len(path) == depth and path[-1:] != (4,)]:
            scores = made.block.place(TEXT[-1], depth, path[-1] if path else TEXT[-1])
            if by_match:
                scores = process(scores, sampling) + noise(len(TEXT) + depth)
            for token, p in enumerate(softmax(scores)):
                chances[*path, token] = chances[path] * p
    best = sorted(chances, key=lambda path: -chances[path])[1:13]
    assert {tuple(tree.tokens_to(node)) for node in range(1, 13)} == set(best)
    assert any(4 in path for path in best) or by_match
    assert made.block.passes == 1
