"""A chain that a head of the target writes token by token."""

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
from ouroboros_core.methods.parts.drafting import drafted_chain
from ouroboros_core.methods.parts.stopping import Stop, StopRule, new_stop
from ouroboros_core.settings import AUTO, Auto
from ouroboros_core.tree import TokenTree, TreeBuilder


class HeadChain(Method):
    """The head is decoded token by token. It need not read the text that the target has read."""

    on_map = (Guesser.HEAD, Shape.CHAIN)
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO,
            examples=[3],
            description="Draft tokens per step; the most under a stopping rule.",
        )
        stop: StopRule = "fixed"

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.head = resources.head(self.needs)

    @property
    def adjustable(self) -> Adjustable | None:
        return super().adjustable if self.settings.stop == "fixed" else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        assert self.head is not None
        self.stop = self.stop_rule()
        self.head.forget()
        self.head.reserve(len(prompt.tokens) + max_new_tokens)

    def stop_rule(self) -> Stop:
        """Return the rule that ends the drafts of a new text."""
        return new_stop(self.settings.stop, self.settings.gamma)

    def propose(self, context: Context) -> TokenTree:
        assert self.head is not None
        if len(context.tokens) < 2:  # the target has no keys yet
            return TreeBuilder(context.root).build()
        return drafted_chain(self.resources, self.head, context, self.stop)

    def learn(self, result: VerificationResult) -> None:
        self.stop.learn(len(result.tree.proposals), len(result.path))
