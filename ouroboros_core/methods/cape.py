"""CaPE: a greedy chain from the draft model, with siblings where it is unsure (arXiv 2402.02082).

Confidence-aware proposal expansion: the lower the draft model's probability of its first choice,
the more of its next choices are proposed. A sibling costs a row of the target's pass and no draft
pass. The paper uses GliDe, a draft model that it trains; here any draft model will do. The draft is
greedy even if the text is sampled.
"""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

BINS = (8, 8, 8, 6, 6, 6, 4, 4, 2, 2, 2)
"""Candidates at a position by the draft model's probability of its first choice: at least 0, 0.1,
0.2 ... 1.0; as published."""

PUBLISHED = {"max_candidates": max(BINS)}
"""The largest number of candidates in the bins."""

LONGEST = 16
"""Tokens of the chain at most if their number is 'auto'."""


class Cape(Method):
    """The draft model is decoded greedily; each output gives the candidates of a position."""

    id = "cape"
    name = "CaPE"
    paper = "https://arxiv.org/abs/2402.02082"
    summary = (
        "A small draft model guesses a chain, with alternatives where it is unsure; the target "
        "checks them all in one pass."
    )
    order = 21
    on_map = (Guesser.DRAFT_MODEL, Shape.TREE)
    needs = frozenset({Need.DRAFT_MODEL})

    published = fixed_values(gamma=4, **PUBLISHED)
    """The paper's bins; the paper names no length, so this is speculative decoding's."""
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[2], description="Draft tokens per step."
        )
        max_candidates: int = Field(
            8,
            ge=1,
            le=8,
            description="Candidates at a place at most, where the draft is least sure.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.draft = DraftModel(resources, adjustable=hyperparameters.gamma == AUTO)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        text, reach, tip = context.tokens, 1.0, 0
        for _ in range(min(self.gamma, context.deepest)):
            if not context.budget.allows_pass(reach):
                break
            evaluation = self.draft.evaluate(text, TreeBuilder(text[-1]).build())
            (likeliest,) = evaluation.scored([0], self.settings.max_candidates)
            builder.note_output(tip, (evaluation, 0))
            first, score = likeliest[0]
            above, tip = tip, len(builder)
            count = candidates(math.exp(score))
            for rank, (token, logarithm) in enumerate(likeliest[:count]):
                share = round(math.exp(logarithm), 2)
                origin = Provenance(Source.DRAFT, step=context.step, rank=rank, confidence=share)
                builder.add(token, above, origin)
            text, reach = (*text, first), reach * math.exp(score)
            if first in self.resources.stop_tokens:
                break
        return builder.build()


def candidates(confidence: float) -> int:
    """Return the number of candidates at a position by the probability of the first choice."""
    return BINS[min(int(10 * confidence), len(BINS) - 1)]
