"""Speculative decoding: a draft model guesses a chain of gamma tokens (arXiv 2211.17192, algorithm 1; arXiv 2302.01318)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, upto
from ouroboros_core.methods.base import Context, Method, Need, Resources
from ouroboros_core.tree import Provenance, Source, TokenTree, TreeBuilder

LONGEST = 16
"""Draft tokens at most where the method chooses how many."""


class Speculative(Method):
    """The draft model is decoded one token at a time, with the noise that the target uses under the rule `match`."""

    id = "speculative"
    name = "Speculative decoding"
    paper = "https://arxiv.org/abs/2211.17192"
    summary = "A small draft model guesses the next few tokens; the target checks them all in one pass."
    order = 10
    needs = frozenset({Need.DRAFT_MODEL})

    class Hyperparameters(hyperparameters.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(AUTO, examples=[2], description="Draft tokens per step.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.gamma = upto(hyperparameters.gamma, LONGEST)

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        self._start_draft_model(prompt, max_new_tokens)

    def offer(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        text = context.tokens
        self._asked = {}
        for depth in range(1, 1 + min(self.gamma, context.budget - 1)):
            if not self.governor.may_draft(self.resources.costs.draft):
                break
            root = TreeBuilder(text[-1]).build()
            evaluation = self._ask(text, root)
            token = self.resources.chooser(evaluation, root, len(text) - 1, context.step)(0)
            drafted = Provenance(Source.DRAFT, step=context.step, confidence=round(evaluation.confidence(0, token), 2))
            self.governor.drafted(drafted, depth)
            self._asked[len(builder) - 1] = evaluation, 0
            builder.add(token, len(builder) - 1, drafted, self.resources.law(evaluation, 0))
            text = (*text, token)
            if token in self.resources.stop_tokens:
                break
        return builder.build()
