"""Speculative decoding: a draft model guesses a chain of gamma tokens (arXiv 2211.17192, algorithm
1; arXiv 2302.01318)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.drafting import DraftModel, drafted_chain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.methods.parts.stopping import StopRule, new_stop
from ouroboros_core.settings import AUTO, Auto, fixed_values
from ouroboros_core.tree import TokenTree


class Speculative(Method):
    """The draft model is decoded one token at a time; under the rule `match` with the noise that
    the target uses."""

    id = "speculative"
    name = "Speculative decoding"
    paper = "https://arxiv.org/abs/2211.17192"
    summary = (
        "A small draft model guesses the next few tokens; the target checks them all in one pass."
    )
    order = 10
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAIN)
    needs = frozenset({Need.DRAFT_MODEL})
    chain_of_passes = True

    published = fixed_values(gamma=4)
    """K of Chen et al. (arXiv 2302.01318)."""
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO,
            examples=[2],
            description="Draft tokens per step; the most under a stopping rule.",
        )
        stop: StopRule = "fixed"

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.draft = DraftModel(resources, adjustable=self.adjustable is not None)

    @property
    def adjustable(self) -> Adjustable | None:
        return super().adjustable if self.settings.stop == "fixed" else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.stop = new_stop(self.settings.stop, self.settings.gamma)
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        return drafted_chain(self.resources, self.draft, context, self.stop)

    def learn(self, result: VerificationResult) -> None:
        self.stop.learn(len(result.tree.proposals), len(result.path))
