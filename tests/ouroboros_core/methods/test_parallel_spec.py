"""ParallelSpec: a chain from one pass, each token from the probabilities at its place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ouroboros_core.methods.parts.base import Context
from ouroboros_core.sampling import Sampling, softmax
from tests.seeded_models import REJECTING, SeededHeads, check_choice, check_places, started

TEXT = (0, 1)
RULES = [Sampling(), Sampling(temperature=0.8, seed=3), REJECTING]


def method(
    sampling: Sampling,
    stop: frozenset[int] = frozenset(),
    gamma: int = 3,
    tree: int = 0,
    rule: str = "fixed",
) -> Any:
    heads = {"parallel": SeededHeads(5, noise=0.7)}
    return started(
        "parallel_spec",
        {"gamma": gamma, "tree_size": tree, "stop": rule},
        sampling,
        stop_tokens=stop,
        heads=heads,
    )


@pytest.mark.parametrize("sampling", RULES)
def test_each_token_is_chosen_by_what_the_drafter_says_at_its_place(sampling: Sampling) -> None:
    """The oracle looks the places up one by one: greedy the likeliest token; sampled by `match` the
    one that the noise of its position makes of them; q where tokens are judged by it."""
    made = method(sampling)
    for step in range(12):
        text, before = (*TEXT, step % 6), made.group.passes
        tree = made.propose(Context(text, 50, step))
        assert made.group.passes - before == 1
        assert tree.parents == (-1, 0, 1, 2)
        for place in range(3):
            logits = made.group.after((text[-1], 100 + place))
            check_choice(tree, place + 1, logits, sampling, len(text) + place)


def test_a_draft_is_no_longer_than_a_group_and_ends_with_the_text_or_a_stop_token() -> None:
    assert len(method(Sampling(), gamma=9).propose(Context(TEXT, 50, 0))) == 1 + SeededHeads.group
    whole = method(Sampling()).propose(Context(TEXT, 50, 0))
    tree = method(Sampling(), frozenset({whole.tokens[2]})).propose(Context(TEXT, 50, 0))
    assert tree.tokens == whole.tokens[:3]
    assert len(method(Sampling()).propose(Context(TEXT, 2, 0))) == 2
    assert len(method(Sampling()).propose(Context(TEXT[:1], 50, 0))) == 1


@pytest.mark.parametrize("rule", ["hf_constant", "p_min"])
def test_a_stopping_rule_ends_the_chain_by_the_chances_at_its_places(rule: str) -> None:
    """The oracle looks the places up one by one: transformers' rule ends a chain behind a token
    below 0.4, llama.cpp's before a place where no token has 0.75. A tree has no such end."""
    made, lengths = method(Sampling(), rule=rule), set[int]()
    for last in range(6):
        context = Context((*TEXT, last), 50, 0)
        chances = [softmax(made.group.after((last, 100 + place))).max() for place in range(3)]
        if rule == "p_min":
            expected = next((n for n, chance in enumerate(chances) if chance < 0.75), 3)
        else:
            expected = next((n for n, chance in enumerate(chances, 1) if chance < 0.4), 3)
        assert len(made.propose(context).proposals) == expected
        lengths.add(expected)
    assert len(lengths) > 1, "the rule ends some chains only"
    assert len(method(Sampling(), tree=7, rule=rule).propose(context).proposals) == 7


def test_drafted_corrected_and_bonus_tokens_follow_the_target() -> None:
    check_places(method(REJECTING, gamma=2), REJECTING, 12_000)


def test_the_text_follows_the_target_if_a_rule_ends_its_drafts() -> None:
    check_places(
        method(REJECTING, gamma=2, rule="hf_constant"), REJECTING, 5_000, kinds=("first", "bonus")
    )


def test_drafted_corrected_and_bonus_tokens_of_a_tree_follow_the_target() -> None:
    check_places(method(REJECTING, gamma=2, tree=4), REJECTING, 5_000)


def test_a_tree_holds_the_chain_and_the_likeliest_tokens_beside_it() -> None:
    """The oracle is the list of all paths by their product of probabilities."""
    made = method(Sampling(), tree=7)
    tree = made.propose(Context(TEXT, 50, 0))
    rows = [softmax(made.group.after((TEXT[-1], 100 + place))) for place in range(3)]
    every = [path for depth in (1, 2, 3) for path in itertools.product(range(6), repeat=depth)]
    every.sort(key=lambda path: -np.prod([rows[n][token] for n, token in enumerate(path)]))
    assert {tuple(tree.tokens_to(node)) for node in range(1, 8)} == set(every[:7])
