"""CaPE: a greedy chain, and as many siblings beside it as the paper's bins say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.methods.cape import BINS, PUBLISHED, candidates
from ouroboros_core.methods.parts.base import Context
from ouroboros_core.sampling import Sampling, softmax
from tests.seeded_models import started

KIND = methods.get("cape")
TEXT = (0, 1)
SIZE = 12


def method(sampling: Sampling, **settings: Any) -> Any:
    return started("cape", {"gamma": 4, **settings}, sampling, SIZE)


@pytest.mark.parametrize(
    ("confidence", "count"),
    [(0.0, 8), (0.29, 8), (0.3, 6), (0.59, 6), (0.6, 4), (0.79, 4), (0.8, 2), (0.99, 2), (1.0, 2)],
)
def test_the_less_sure_the_draft_is_the_more_candidates_there_are(
    confidence: float, count: int
) -> None:
    """The oracle is the paper's table: 8 candidates below 0.3, 6 below 0.6, 4 below 0.8, else 2."""
    assert candidates(confidence) == count
    assert sorted(BINS, reverse=True) == list(BINS)
    assert KIND.Hyperparameters.settings()["max_candidates"].default == PUBLISHED["max_candidates"]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0)])
def test_the_chain_is_the_drafts_greedy_text_and_siblings_are_its_next_choices(
    sampling: Sampling,
) -> None:
    """The oracle sorts the draft's logits after each text."""
    made = method(sampling)
    seen: Counter[int] = Counter()
    for last in range(SIZE):
        text, before = (0, last), made.draft.model.passes
        tree = made.propose(Context(text, 50, last))
        assert made.draft.model.passes - before == max(tree.depths) == 4
        node = 0
        while children := tree.children(node):
            path = tree.tokens_to(node)
            logits = made.draft.model.after((*text, *path))
            count = candidates(float(softmax(logits).max()))
            best = np.argsort(-logits)[:count].tolist()
            assert [tree.tokens[child] for child in children] == best
            assert not any(tree.children(child) for child in children[1:]), "siblings are leaves"
            seen[count] += 1
            node = children[0]
    assert len(seen) > 1


def test_with_one_candidate_it_is_a_greedy_chain() -> None:
    """The oracle is speculative decoding."""
    other = started("speculative", {"gamma": 4}, size=SIZE)
    made = method(Sampling(), max_candidates=1)
    trees = [one.propose(Context(TEXT, 50, 0)) for one in (made, other)]
    assert trees[0].tokens == trees[1].tokens and trees[0].parents == trees[1].parents
