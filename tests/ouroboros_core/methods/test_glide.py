"""GliDe: a chain that is grown as one tree, drawn like the draft model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from tests.seeded_models import SeededModel, check_places

KIND = methods.get("glide")
TEXT = (0, 1)
REJECTING = Sampling(temperature=1.0, seed=4, acceptance="rejection")
RULES = [Sampling(), Sampling(temperature=0.8, seed=3), REJECTING]


def method(sampling: Sampling, stop: frozenset[int] = frozenset(), gamma: int = 4) -> Any:
    resources = Resources(
        Sampler(sampling, 6), stop_tokens=stop, heads={"glide": SeededModel(5, noise=0.7)}
    )
    made = KIND(KIND.Hyperparameters.parse({"gamma": gamma}), resources)
    made.start(TokenizedPrompt(TEXT), 50)
    return made


@pytest.mark.parametrize("sampling", RULES)
def test_it_writes_what_speculative_decoding_would_with_the_same_draft(sampling: Sampling) -> None:
    """The oracle asks about each longer text anew; q is the draft's at every place."""
    made, kind = method(sampling), methods.get("speculative")
    draft = SeededModel(5, noise=0.7)
    other = kind(kind.Hyperparameters.parse({"gamma": 4}), Resources(Sampler(sampling, 6), draft))
    other.start(TokenizedPrompt(TEXT), 50)
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
