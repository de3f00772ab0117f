"""Tokens that a grammar forces, as drafts beside those of any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ouroboros_core.methods.parts.base import Context, Method, StepNotes, TokenizedPrompt
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder

Forced = Callable[[Sequence[int]], Sequence[int]]
"""Return the token ids that must follow a text."""


class UnderGrammar(Combination):
    """A method whose tree also has the forced tokens, behind the root and behind the deepest
    proposal. The target's probability of each is one, so every acceptance rule keeps them.

    A method that drafts is not asked where its draft would end inside the forced tokens: it writes
    the same ones, since the grammar binds the draft, too.
    """

    def __init__(self, method: Method, forced: Forced) -> None:
        super().__init__(method.hyperparameters, method.resources, [method], merge=True)
        self.method = method
        self._forced = forced
        self._depth = 0
        """The depth of the last draft."""

    @property
    def notes(self) -> StepNotes:
        return self.method.notes

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.method.start(prompt, max_new_tokens)

    def _trees(self, context: Context) -> dict[Method, TokenTree]:
        if self.method.drafter and len(self._forced(context.tokens)) >= self._depth > 0:
            return {}
        tree = self.method.propose(context)
        self._depth = max(tree.depths[: tree.proposals.stop])
        return {self.method: tree}

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
