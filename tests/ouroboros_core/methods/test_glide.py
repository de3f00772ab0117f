"""GliDe: a chain that is grown as one tree, drawn like the draft model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ouroboros_core.methods.parts.base import Context
from ouroboros_core.sampling import Sampling, process, softmax
from tests.seeded_models import REJECTING, SeededModel, check_places, started

TEXT = (0, 1)
RULES = [Sampling(), Sampling(temperature=0.8, seed=3), REJECTING]


def method(sampling: Sampling, stop: frozenset[int] = frozenset(), gamma: int = 4) -> Any:
    heads = {"glide": SeededModel(5, noise=0.7)}
    return started("glide", {"gamma": gamma}, sampling, stop_tokens=stop, heads=heads)


@pytest.mark.parametrize("sampling", RULES)
def test_it_writes_what_speculative_decoding_would_with_the_same_draft(sampling: Sampling) -> None:
    """The oracle asks about each longer text anew; q is the draft's at every place."""
    made, draft = method(sampling), SeededModel(5, noise=0.7)
    other = started("speculative", {"gamma": 4}, sampling)
    for step in range(12):
        context = Context((*TEXT, step % 6), 50, step)
        tree, wanted = (one.propose(context) for one in (made, other))
        assert tree.tokens == wanted.tokens and tree.parents == wanted.parents
        for node in range(1, len(tree)):
            q = tree.drawn_from(node)
            assert (q is None) == (not sampling.rule.needs_probabilities)
            if q is not None:
                text = (*context.tokens, *(tree.tokens[n] for n in range(1, node)))
                assert np.allclose(q, softmax(process(draft.after(text), sampling)))


def test_a_draft_ends_at_a_stop_token_and_with_the_text() -> None:
    whole = method(Sampling()).propose(Context(TEXT, 50, 0))
    tree = method(Sampling(), frozenset({whole.tokens[2]})).propose(Context(TEXT, 50, 0))
    assert tree.tokens == whole.tokens[:3]
    assert len(method(Sampling()).propose(Context(TEXT, 3, 0))) == 3
    assert len(method(Sampling()).propose(Context(TEXT[:1], 50, 0))) == 1


def test_drafted_corrected_and_bonus_tokens_follow_the_target() -> None:
    check_places(method(REJECTING, gamma=2), REJECTING)
