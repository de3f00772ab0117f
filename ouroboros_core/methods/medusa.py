"""Medusa: heads on the target's last hidden state guess one position each; the target checks a
sparse tree of their likeliest tokens (arXiv 2401.10774).

The shape of the tree is chosen once, by the accuracy of each rank of each head (section 2.3.3), or
at each step by the heads' probabilities there.
Verification is exact here; the paper's typical acceptance, which changes the distribution of the
text, is an acceptance rule that works with every method. Tokens are chosen by rank, not drawn, so
rejection sampling treats each token as certain.
"""

from __future__ import annotations

from math import exp
from typing import Annotated, Literal, cast

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
from ouroboros_core.methods.parts.best_first import best_first, grow, likeliest
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain

LARGEST = 63
"""Nodes proposed if their number is 'auto'."""


class Medusa(Method):
    """One pass over all heads, and a tree whose shape is the same at every step."""

    id = "medusa"
    name = "Medusa"
    paper = "https://arxiv.org/abs/2401.10774"
    summary = (
        "Small heads on the target's last hidden state guess the next few positions at once; the "
        "most likely combinations are checked as a tree."
    )
    order = 26
    on_map = (Guesser.HEAD, Shape.TREE)
    needs = frozenset({Need.MEDUSA})

    published = fixed_values(tree_depth=5, tree_size=63, shape="fixed")
    """Five heads, and 64 nodes with the root (sections 2.1 and 3)."""
    auto_setting = "tree_size"

    class Hyperparameters(settings.Hyperparameters):
        tree_depth: int = Field(5, ge=1, le=10, description="Levels of the drafted tree.")
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[8], description="Drafted tokens that the target checks."
        )
        shape: Literal["fixed", "best_first"] = Field(
            "fixed",
            description="fixed: the same tree at every step; best_first: the step's likeliest.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.heads = cast(RankedDrafter, self.drafter)
        self.size = upto(hyperparameters.tree_size, LARGEST)
        accuracies = self.heads.accuracies[: hyperparameters.tree_depth]
        self.places, self.paths = len(accuracies), best_first(accuracies, self.size)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.heads.forget()

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        deepest = max(map(len, self.paths)) if self.settings.shape == "fixed" else self.places
        levels = min(deepest, context.remaining - 1)
        if levels < 1 or len(context.tokens) < 2 or not context.budget.allows_pass():
            return builder.build()
        # Outputs depend on the depth only, so any chain gets all of them.
        line = chain(context.root, [context.root] * (levels - 1), Provenance(Source.DRAFT))
        evaluation = self.heads.evaluate(context.tokens, line)
        if self.settings.shape == "fixed":
            paths = tuple(path for path in self.paths if len(path) <= levels)
            scored = evaluation.scored(range(levels), 1 + max(max(path) for path in paths))
            ranked = [[(token, exp(score)) for token, score in row] for row in scored]
        else:
            positions = range(len(context.tokens), len(context.tokens) + levels)
            ranked = likeliest(self.resources, evaluation, range(levels), positions, self.size)
            paths = best_first([[chance for _, chance in row] for row in ranked], self.size)
        grow(builder, ranked, paths, evaluation, context.step, self.resources.stop_tokens)
        return builder.build()
