"""Draft & Verify: the target drafts with some of its layers skipped (arXiv 2309.08168).

There is no second model: the draft is the target without some attentions and MLPs. It shares the
target's weights and the keys and values of the text. It stops after a token of low probability, and
the threshold follows the acceptance rate (section 3.4). That last token is still proposed: under
rejection sampling, a drawn token must not decide whether it is judged.
"""

from __future__ import annotations

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
    VerificationResult,
)
from ouroboros_core.methods.parts.drafting import drafted_chain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.methods.parts.stopping import AcceptanceThreshold, LeastConfidence
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.tree import TokenTree

LONGEST = 12
"""Draft tokens at most if their number is 'auto'; as published."""


class DraftVerify(Method):
    """The draft is decoded one token at a time, behind the rows that the target has written."""

    id = "draft_verify"
    name = "Draft & Verify"
    paper = "https://arxiv.org/abs/2309.08168"
    summary = (
        "No second model: the target, skipping some of its layers, guesses the next few tokens and "
        "stops where it is unsure; the full target checks them in one pass."
    )
    order = 11
    on_map = (Guesser.TARGET, Shape.CHAIN)
    needs = frozenset({Need.SELF_DRAFT})

    published = fixed_values(gamma=12, threshold=0.6, adaptive=True, acceptance_goal=0.9)
    """Settings of the authors' experiments (evaluate_sum.ipynb in their repository)."""
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[4], description="Draft tokens per step at most."
        )
        threshold: float = Field(
            0.6,
            ge=0.0,
            le=1.0,
            allow_inf_nan=False,
            description="Drafting stops after a token to which the draft gives less probability.",
        )
        adaptive: bool = Field(True, description="The threshold follows the acceptance rate.")
        acceptance_goal: float = Field(
            0.9,
            ge=0.0,
            le=1.0,
            allow_inf_nan=False,
            description="Below this acceptance rate the threshold rises, above it it falls.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.moving = AcceptanceThreshold(self.settings.threshold, self.settings.acceptance_goal)

    @property
    def threshold(self) -> float:
        """The probability below which the next draft ends."""
        return self.moving.value

    def propose(self, context: Context) -> TokenTree:
        draft = self.resources.self_draft
        assert draft is not None
        stop = LeastConfidence(self.gamma, self.threshold)
        return drafted_chain(self.resources, draft, context, stop)

    def learn(self, result: VerificationResult) -> None:
        drafted = len(result.tree.proposals)
        if self.settings.adaptive:
            self.moving.learn(drafted, len(result.path), drafted == self.gamma)
