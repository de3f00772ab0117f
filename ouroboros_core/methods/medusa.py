"""Medusa: heads on the target's last hidden state guess one position each; the target checks a
sparse tree of their likeliest tokens (arXiv 2401.10774).

The shape of the tree is chosen once, by the accuracy of each rank of each head (section 2.3.3).
Verification is exact here; the paper's typical acceptance, which changes the distribution of the
text, is an acceptance rule that works with every method. Tokens are chosen by rank, not drawn, so
rejection sampling treats each token as certain.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import exp
from typing import Annotated, cast

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.interfaces import RankedDrafter
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain

LARGEST = 63
"""Nodes proposed if their number is 'auto'."""

Ranks = tuple[int, ...]
"""A path from the root: for each head the rank of its token, from 0."""


class Medusa(Method):
    """One pass over all heads, and a tree whose shape is the same at every step."""

    id = "medusa"
    name = "Medusa"
    paper = "https://arxiv.org/abs/2401.10774"
    summary = (
        "Small heads on the target's last hidden state guess the next few places at once; the "
        "likeliest combinations are checked as a tree."
    )
    order = 26
    on_map = (Guesser.HEAD, Shape.TREE)
    needs = frozenset({Need.MEDUSA})

    published = fixed_values(tree_depth=5, tree_size=63)
    """Five heads, and 64 nodes with the root (sections 2.1 and 3)."""
    auto_setting = "tree_size"

    class Hyperparameters(settings.Hyperparameters):
        tree_depth: int = Field(5, ge=1, le=10, description="Levels of the drafted tree.")
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[8], description="Drafted tokens that the target checks."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.heads = cast(RankedDrafter, self.drafter)
        size = upto(hyperparameters.tree_size, LARGEST)
        self.paths = sparse_tree(self.heads.accuracies[: hyperparameters.tree_depth], size)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.heads.forget()

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        paths = [path for path in self.paths if len(path) < context.remaining]
        if not paths or len(context.tokens) < 2 or not context.budget.allows_pass():
            return builder.build()
        levels = max(map(len, paths))
        # Outputs depend on the depth only, so any chain gets all of them.
        line = chain(context.root, [context.root] * (levels - 1), Provenance(Source.DRAFT))
        evaluation = self.heads.evaluate(context.tokens, line)
        ranked = evaluation.scored(range(levels), 1 + max(max(path) for path in paths))
        builder.note_output(0, (evaluation, 0))
        numbers: dict[Ranks, int] = {(): 0}
        for path in paths:
            above, level = numbers.get(path[:-1]), len(path) - 1
            if above is None or path[-1] >= len(ranked[level]):
                continue
            token, score = ranked[level][path[-1]]
            confidence = round(exp(score), 2)
            origin = Provenance(
                Source.DRAFT, step=context.step, rank=path[-1], confidence=confidence
            )
            node = builder.add(token, above, origin)
            assert node is not None
            if token in self.resources.stop_tokens:
                continue
            numbers[path] = node
            if len(path) < levels:
                builder.note_output(node, (evaluation, len(path)))
        return builder.build()


def sparse_tree(accuracies: Sequence[Sequence[float]], size: int) -> tuple[Ranks, ...]:
    """Return the paths of a tree of `size` nodes without the root, or of fewer nodes if there are
    no more paths, in the order in which they are added: the likeliest path first (section 2.3.3).

    accuracies: for each head and rank, the share of tokens that are right. The probability of a
    path is the product over its tokens.
    """
    waiting: list[tuple[float, Ranks]] = []
    chosen: list[Ranks] = []

    def grow(path: Ranks, chance: float) -> None:
        if len(path) < len(accuracies):
            for rank, accuracy in enumerate(accuracies[len(path)]):
                heapq.heappush(waiting, (-chance * accuracy, (*path, rank)))

    grow((), 1.0)
    while waiting and len(chosen) < size:
        chance, path = heapq.heappop(waiting)
        chosen.append(path)
        grow(path, -chance)
    return tuple(chosen)
