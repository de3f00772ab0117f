"""A copy that another source has begun, too: it stays whole, because of those who propose a token
the likeliest speaks for it.

The oracle is the same run without the other source, which nothing can cut.
"""

from collections.abc import Sequence
from typing import Any

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.decoding.loop import decode
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import TokenTree
from tests.tiny import emitted

COSTS = Costs(PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)))
PASSAGE = range(1, 41)
"""Tokens of a passage that the text repeats; none of them occurs twice in it."""
KNOWN = 12
"""Tokens of the repetition that the prompt has: the match of the first copy."""


def likely(token: int, k: int) -> list[int]:
    """Return the target's likeliest tokens after a token, first the next one of the passage."""
    return [token % len(PASSAGE) + 1, *range(50, 49 + k)]


class Said:
    """The target's outputs after the nodes of a tree."""

    def __init__(self, tree: TokenTree) -> None:
        self.tokens = tree.tokens

    def argmax(self) -> list[int]:
        return [likely(token, 1)[0] for token in self.tokens]

    def likeliest(self, k: int) -> dict[int, list[int]]:
        return {node: likely(token, k) for node, token in enumerate(self.tokens)}


class Reciting:
    """A target that writes the passage again and again."""

    name, vocabulary, max_length, passes, rows = "reciting", 64, 10_000, 0, 0

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Sequence[int], candidates: int = 0) -> dict[int, list[int]]:
        return {token: likely(token, candidates) for token in context[:-1]} if candidates else {}

    def evaluate(self, context: Sequence[int], tree: TokenTree) -> Said:
        return Said(tree)


def recited(method: str, count: int, **settings: Any) -> list[Step]:
    """All steps behind the passage and its first tokens once more."""
    target: Any = Reciting()
    kind, sampler = methods.get(method), Sampler(Sampling(), target.vocabulary)
    made = methods.create(kind, kind.Hyperparameters(**settings), Resources(sampler))
    prompt = [*PASSAGE, *PASSAGE[:KNOWN]]
    steps = decode(target, controlled(made, COSTS), prompt, max_new_tokens=count, sampler=sampler)
    return list(steps)


def test_a_good_copy_stays_whole_where_another_source_proposes_its_first_tokens() -> None:
    rest = [*PASSAGE[KNOWN:], PASSAGE[0]]
    merging = {"auxiliary": "token_recycling", "extended": True}
    merged = recited("sam", len(rest), **merging)
    copied = recited("sam", len(rest), auxiliary="none")
    assert emitted(merged) == emitted(copied) == rest
    first = merged[0].tree
    both = [origin for origin in first.provenance if origin.also]
    assert both and {Source.RECYCLED, Source.COPY} == {
        source for origin in both for source in (origin.source, origin.also)
    }, "the case has tokens that both propose"
    assert len(merged[0].path) == len(copied[0].path) == 1 + KNOWN, "as long as the match makes it"
    per_pass = [len(rest) / len(steps) for steps in (merged, copied)]
    assert per_pass[0] == per_pass[1] == len(rest) / 2
