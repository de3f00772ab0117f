"""Several methods in one tree: their proposals are merged, and each learns the result in its own
node numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ouroboros_core.interfaces import MakesPasses
from ouroboros_core.lookup.memory import Memories, of_kind
from ouroboros_core.methods.parts.base import (
    Context,
    Method,
    Resources,
    StepNotes,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.tree import TokenTree, TreeBuilder


class Combination(Method):
    """Combines the members that it is given. With `merge` all of them propose, and equal prefixes
    become one; otherwise the first that proposes anything does so alone, and the one that drafts is
    asked last, because drafting may cost passes. With `merge` its nodes come first in the tree, so
    that under rejection sampling nothing judged before a drawn token depends on that token."""

    def __init__(
        self, hyperparameters: Any, resources: Resources, members: Sequence[Method], *, merge: bool
    ) -> None:
        """members: the one that drafts first, then the others in the order in which they are
        asked."""
        super().__init__(hyperparameters, resources)
        self.parts = list(members)
        self.merge = merge
        self._proposed: list[tuple[Method, TokenTree, tuple[int | None, ...]]] = []

    @property
    def drafter(self) -> MakesPasses | None:
        return next((part.drafter for part in self.parts if part.drafter), None)

    @classmethod
    def new_memory(cls, hyperparameters: Any, fingerprint: str = "") -> Memories:
        return Memories(fingerprint)

    @classmethod
    def drafts_by_head(cls, draft: str | None) -> bool:
        return (draft or "").endswith("eagle")

    @property
    def notes(self) -> StepNotes:
        """The first pool and the first window of the members."""
        notes = [part.notes for part in self.parts]
        return StepNotes(
            next((one.pool_size for one in notes if one.pool_size is not None), None),
            next((one.columns for one in notes if one.columns is not None), None),
        )

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory = of_kind(self.resources.memory, Memories)
        if memory is not None:
            memory.begin_run()
        for part in self.parts:
            part.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        trees = self._trees(context)
        bare = TreeBuilder(context.root).build()
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        self._proposed = []
        for part in self.parts:
            tree = trees.get(part, bare)
            self._proposed.append((part, tree, builder.graft(tree)))
        self._proposed = [
            (part, tree, (*numbers, *builder.graft_window(tree)))
            for part, tree, numbers in self._proposed
        ]
        return builder.build()

    def _trees(self, context: Context) -> dict[Method, TokenTree]:
        """The proposals of the members that are asked in this step."""
        if self.merge:
            return {part: part.propose(context) for part in self.parts}
        for part in sorted(self.parts, key=lambda part: part.drafter is not None):
            tree = part.propose(context)
            if len(tree) > 1:
                return {part: tree}
        return {}

    def learn(self, result: VerificationResult) -> None:
        for part, tree, numbers in self._proposed:
            part.learn(
                result.of(
                    tree,
                    {node: number for node, number in enumerate(numbers) if number is not None},
                )
            )
