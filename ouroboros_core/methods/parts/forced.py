"""Tokens that a grammar forces, as drafts in front of any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ouroboros_core.interfaces import MakesPasses
from ouroboros_core.methods.parts.base import Context, Method, StepNotes, TokenizedPrompt
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

Forced = Callable[[Sequence[int]], Sequence[int]]
"""Return the token ids that must follow a text."""


class ForcedTokens(Method):
    """Proposes the tokens that a grammar forces. The target's probability of each is one, so every
    acceptance rule keeps them."""

    id, name, paper, summary = "forced", "Forced by a grammar", "", ""

    def __init__(self, method: Method, forced: Forced) -> None:
        super().__init__(None, method.resources)
        self._forced = forced

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        node: int | None = 0
        for token in self._forced(context.tokens):
            if node is not None:
                node = builder.add(token, node, Provenance(Source.GRAMMAR, step=context.step))
        return builder.build()


class UnderGrammar(Combination):
    """A method whose proposal is merged with the forced tokens."""

    def __init__(self, method: Method, forced: Forced) -> None:
        members = [ForcedTokens(method, forced), method]
        super().__init__(method.hyperparameters, method.resources, members, merge=True)
        self.method = method

    @property
    def drafter(self) -> MakesPasses | None:
        return self.method.drafter

    @property
    def notes(self) -> StepNotes:
        return self.method.notes

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        for member in self.combined:
            member.start(prompt, max_new_tokens)
