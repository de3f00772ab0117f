"""Speculative decoding: a draft model guesses a chain of gamma tokens (arXiv 2211.17192, algorithm
1; arXiv 2302.01318)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, fixed_values, upto
from ouroboros_core.methods.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Need,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.drafting import DraftModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

LONGEST = 16
"""Draft tokens at most where that is 'auto'."""


class Speculative(Method):
    """The draft model is decoded one token at a time, with the noise that the target uses under the
    rule `match`."""

    id = "speculative"
    name = "Speculative decoding"
    paper = "https://arxiv.org/abs/2211.17192"
    summary = (
        "A small draft model guesses the next few tokens; the target checks them all in one pass."
    )
    order = 10
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.DRAFT_MODEL})

    published = fixed_values(gamma=4)
    """K of Chen et al. (arXiv 2302.01318)."""

    class Hyperparameters(hyperparameters.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[2], description="Draft tokens per step."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.draft = DraftModel(resources, adjustable=hyperparameters.gamma == AUTO)

    @property
    def adjustable(self) -> Adjustable | None:
        return Adjustable() if self.settings.gamma == AUTO else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        text, reach = context.tokens, 1.0
        for _ in range(min(self.gamma, context.remaining - 1)):
            if not context.budget.allows_pass(reach):
                break
            root = TreeBuilder(text[-1]).build()
            evaluation = self.draft.evaluate(text, root)
            token = self.resources.chooser(evaluation, root, len(text) - 1, context.step)(0)
            confidence = evaluation.confidence(0, token)
            origin = Provenance(Source.DRAFT, step=context.step, confidence=round(confidence, 2))
            tip = len(builder) - 1
            builder.note_output(tip, (evaluation, 0))
            builder.add(token, tip, origin, self.resources.drawn_from(evaluation, 0))
            text, reach = (*text, token), reach * confidence
            if token in self.resources.stop_tokens:
                break
        return builder.build()
