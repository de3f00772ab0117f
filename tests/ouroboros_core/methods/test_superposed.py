"""Superposed decoding: the drafts of one pass a place, ranked with n-grams, checked by the
target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.interpolation import Interpolation
from ouroboros_core.methods.parts.base import Context, Resources
from ouroboros_core.methods.superposed import WEIGHTS
from ouroboros_core.sampling import softmax
from ouroboros_core.tree import TokenTree
from tests.seeded_models import REJECTING, SeededModel, check_places, started

KIND = methods.get("superposed")
TEXT = (0, 1, 3, 0, 1, 2, 3, 0, 1)


def method(
    vocabulary: int = 6, stop: frozenset[int] = frozenset(), sampling: Any = None, **settings: Any
) -> Any:
    chosen = {"gamma": 4, **settings}
    return started("superposed", chosen, sampling, vocabulary, TEXT, stop_tokens=stop)


def leaves(tree: TokenTree) -> list[list[int]]:
    """The tokens of each branch, in the order of the tree."""
    ends = [node for node in range(1, len(tree)) if not tree.children(node)]
    return [tree.tokens_to(node) for node in ends]


def beam(draft: SeededModel, count: int, gamma: int, alpha: float, heat: float) -> list[list[int]]:
    """The oracle: all drafts with all tokens, place by place, as section 3 of the paper says."""
    ngrams = Interpolation(WEIGHTS)
    ngrams.extend(TEXT)
    drafts: list[tuple[float, list[int]]] = [(0.0, [])]
    lasts = [{token: 1.0} for token in TEXT[-2:]]
    for _ in range(gamma):
        logits = sum(
            one * other * draft.after((a, b))
            for a, one in lasts[-2].items()
            for b, other in lasts[-1].items()
        )
        best = np.argsort(-logits)[: 3 * count].tolist()
        p = softmax(logits[best] / heat)
        longer = []
        for score, tokens in drafts:
            r = ngrams.of([*TEXT, *tokens][-5:], best, p.tolist())
            both = (1 - alpha) * np.log(np.maximum(p, 1e-300)) + alpha * np.log(r)
            longer += [(score + more, [*tokens, t]) for t, more in zip(best, both, strict=True)]
        drafts = sorted(longer, key=lambda one: -one[0])[:count]
        weights = softmax(np.array([score for score, _ in drafts]))
        lasts.append({})
        for weight, (_, tokens) in zip(weights, drafts, strict=True):
            lasts[-1][tokens[-1]] = lasts[-1].get(tokens[-1], 0.0) + float(weight)
    return [tokens for _, tokens in drafts]


@pytest.mark.parametrize("alpha", [0.0, 0.54, 1.0])
@pytest.mark.parametrize(("count", "heat"), [(2, 0.06), (3, 1.0), (3, 0.3)])
def test_the_drafts_are_the_best_of_a_beam_that_reads_their_mean(
    count: int, heat: float, alpha: float
) -> None:
    made = method(20, drafts=count, alpha=alpha, draft_temperature=heat)
    tree = made.propose(Context(TEXT, 50, 0))
    wanted = beam(made.draft.model, count, 4, alpha, heat)
    assert sorted(leaves(tree)) == sorted(wanted)
    assert leaves(tree)[0] == wanted[0], "the best one comes first"
    assert made.draft.model.passes == 4, "one pass a place, whatever the number of drafts"


def test_one_draft_without_ngrams_is_the_drafts_greedy_text() -> None:
    """The oracle is speculative decoding."""
    other = started("speculative", {"gamma": 4}, text=TEXT)
    trees = [one.propose(Context(TEXT, 50, 0)) for one in (method(drafts=1, alpha=0.0), other)]
    assert trees[0].tokens == trees[1].tokens
    confident = [[origin.confidence for origin in tree.provenance] for tree in trees]
    assert confident[0] == confident[1]


def test_ngrams_lift_what_the_text_has_said_before() -> None:
    """After 3 0 1 the text went on with 2, which is not what the draft model finds likeliest."""
    first = {}
    for alpha in (0.0, 0.9):
        made = method(drafts=2, alpha=alpha, draft_temperature=2.0)
        first[alpha] = leaves(made.propose(Context(TEXT, 2, 0)))[0]
    assert first[0.0] == [int(made.draft.model.after(TEXT).argmax())] != [2]
    assert first[0.9] == [2]


def test_a_draft_that_has_ended_keeps_its_place() -> None:
    lengths = []
    for stop in range(6):
        made = method(6, frozenset({stop}), draft_temperature=1.0)
        found = leaves(made.propose(Context(TEXT, 50, 0)))
        assert all(stop not in tokens[:-1] for tokens in found)
        assert all(len(tokens) == 4 or tokens[-1] == stop for tokens in found)
        assert len(found) <= 3
        lengths.append({*map(len, found)})
    assert any(len(one) > 1 for one in lengths)


def test_no_draft_goes_beyond_the_text() -> None:
    assert max(method().propose(Context(TEXT, 3, 0)).depths) == 2
    assert len(method().propose(Context(TEXT, 1, 0))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_drafted_corrected_and_bonus_tokens_follow_the_target(rule: str) -> None:
    """Counts by place in the step and by the two tokens before, which are all that the target's
    probabilities depend on."""
    sampling = REJECTING.model_copy(update={"acceptance": rule})
    made = method(5, sampling=sampling, gamma=2, draft_temperature=1.0)
    check_places(made, sampling, 3_000, size=5)
    tree = made.propose(Context(TEXT, 50, 0))
    assert all(tree.drawn_from(node) is None for node in range(len(tree)))


def test_a_draft_model_that_cannot_read_a_mixture_is_refused_with_the_remedy() -> None:
    class Plain:
        name, vocabulary, passes, rows, max_length = "plain", 6, 0, 0, 99

    plain: Any = Plain()
    with pytest.raises(InvalidInput) as caught:
        KIND(KIND.Hyperparameters.parse({}), Resources(draft_model=plain))
    assert str(caught.value) == (
        "superposed needs a draft model that can read mixed embeddings, which plain cannot: name a "
        "causal language model of transformers with --draft, or choose another method"
    )
