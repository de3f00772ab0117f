"""Several methods in one tree: their proposals are merged, and each member learns the result in its
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
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.tree import TokenTree, TreeBuilder


class Combination(Method):
    """A method that combines its members.

    With `merge` all members propose, and equal prefixes become one. The nodes of the member that
    drafts come first in the tree: under rejection sampling, no token that is judged before a drawn
    token may depend on it. Without `merge` the first member that proposes anything proposes alone;
    the member that drafts is asked last, because drafting may cost passes.
    """

    def __init__(
        self, hyperparameters: Any, resources: Resources, members: Sequence[Method], *, merge: bool
    ) -> None:
        """members: with `merge` the member that drafts first, then the others in the order in which
        they are asked."""
        super().__init__(hyperparameters, resources)
        self.combined = list(members)
        self.merge = merge
        self._proposed: list[tuple[Method, TokenTree, tuple[int | None, ...]]] = []

    @property
    def drafter(self) -> MakesPasses | None:
        return next((member.drafter for member in self.combined if member.drafter), None)

    @classmethod
    def new_memory(cls, hyperparameters: Any, fingerprint: str = "") -> Memories:
        return Memories(fingerprint)

    @classmethod
    def drafts_by_head(cls, draft: str | None) -> bool:
        return (draft or "").endswith(tuple(HEAD_KINDS.values()))

    @property
    def notes(self) -> StepNotes:
        """The first pool and the first window of the members."""
        pools = [member.notes.pool_size for member in self.combined]
        windows = [member.notes.columns for member in self.combined]
        return StepNotes(
            pool_size=next((size for size in pools if size is not None), None),
            columns=next((columns for columns in windows if columns is not None), None),
        )

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory = of_kind(self.resources.memory, Memories)
        if memory is not None:
            memory.begin_run()
        for member in self.combined:
            member.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        trees = self._trees(context)
        bare = TreeBuilder(context.root).build()
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        self._proposed = []
        for member in self.combined:
            tree = trees.get(member, bare)
            self._proposed.append((member, tree, builder.graft(tree)))
        self._complete(builder, context)
        self._proposed = [
            (member, tree, (*numbers, *builder.graft_window(tree)))
            for member, tree, numbers in self._proposed
        ]
        return builder.build()

    def _complete(self, builder: TreeBuilder, context: Context) -> None:
        """Add to the members' proposals, before the window."""

    def _trees(self, context: Context) -> dict[Method, TokenTree]:
        """Return the proposals of the members that are asked in this step."""
        if self.merge:
            return {member: member.propose(context) for member in self.combined}
        for member in sorted(self.combined, key=lambda member: member.drafter is not None):
            tree = member.propose(context)
            if len(tree) > 1:
                return {member: tree}
        return {}

    def learn(self, result: VerificationResult) -> None:
        for member, tree, numbers in self._proposed:
            member.learn(
                result.of(
                    tree,
                    {node: number for node, number in enumerate(numbers) if number is not None},
                )
            )
