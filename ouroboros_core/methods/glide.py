"""GliDe: a small draft that attends to the target's keys and values writes a chain (arXiv
2402.02082)."""

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
)
from ouroboros_core.methods.parts.drafting import drafted_chain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.tree import TokenTree, TreeBuilder

LONGEST = 16
"""Draft tokens at most if their number is 'auto'."""


class Glide(Method):
    """The draft is decoded token by token. It need not read the text that the target has read.
    `cape` adds siblings by confidence."""

    id = "glide"
    name = "GliDe"
    paper = "https://arxiv.org/abs/2402.02082"
    summary = (
        "A one-layer draft looks at the keys and values that the target has kept of the text, and "
        "writes the next few tokens."
    )
    order = 27
    on_map = (Guesser.HEAD, Shape.CHAIN)
    needs = frozenset({Need.GLIDE})

    published = fixed_values(gamma=5)
    """The block of the authors' code (github.com/NonvolatileMemory/GliDe_with_a_CaPE_ICML_24,
    glide/glideModel.py)."""
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[3], description="Draft tokens per step."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        self.head = resources.head(self.needs)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        assert self.head is not None
        self.head.forget()
        self.head.reserve(len(prompt.tokens) + max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        assert self.head is not None
        if len(context.tokens) < 2:  # the target has no keys yet
            return TreeBuilder(context.root).build()
        return drafted_chain(self.resources, self.head, context, self.gamma)
