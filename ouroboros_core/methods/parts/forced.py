"""Tokens that a grammar forces, as drafts beside a method's proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ouroboros_core.methods.parts.base import Context, Method, StepNotes, TokenizedPrompt
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder

Forced = Callable[[Sequence[int]], Sequence[int]]
"""Return the token ids that must follow a text."""


class UnderGrammar(Combination):
    """A method whose tree also has the forced tokens, behind the root and behind the deepest
    proposal. The target's probability of each is one, so every acceptance rule keeps them.
    """

    def __init__(self, method: Method, forced: Forced) -> None:
        super().__init__(method.hyperparameters, method.resources, [method], merge=True)
        self.method = method
        self._forced = forced

    @property
    def notes(self) -> StepNotes:
        return self.method.notes

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.method.start(prompt, max_new_tokens)

    def _complete(self, builder: TreeBuilder, context: Context) -> None:
        _, tree, numbers = self._proposed[0]
        deepest = max(range(tree.proposals.stop), key=tree.depths.__getitem__)
        for node in dict.fromkeys((0, deepest)):
            text = (*context.tokens, *tree.tokens_to(node))
            end = numbers[node]
            for token in self._forced(text):
                if end is not None:
                    end = builder.add_origin(
                        token, end, Provenance(Source.GRAMMAR, step=context.step)
                    )
