"""EAGLE-2: a one-layer head drafts a tree from the target's own features (arXiv 2401.15077, 2406.16858)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, upto
from ouroboros_core.memory.governor import Governor
from ouroboros_core.methods.base import Context, Method, Need, Resources
from ouroboros_core.models.language_model import Output
from ouroboros_core.tree import Provenance, Source, TokenTree, TreeBuilder

DEEPEST = 8
"""Levels at most where the method chooses how many."""

LARGEST = 48
"""Nodes offered where the method chooses how many of them to check."""

HIT = 0.62
"""How often the target's token is among the four likeliest of the head: measured on 12 of the project's own prompts, 48 new
tokens, at a depth of 1 (0.36 for one, 0.67 for six, 0.68 for eight)."""


class Eagle2(Method):
    """The head's likeliest tokens, expanded level by level, of which the likeliest nodes are kept (section 4 of EAGLE-2)."""

    id = "eagle2"
    name = "EAGLE-2"
    paper = "https://arxiv.org/abs/2406.16858"
    summary = "A one-layer head reads the target's own hidden states and drafts a tree, of which the likeliest part is checked."
    order = 25
    needs = frozenset({Need.HEAD})

    class Hyperparameters(hyperparameters.Hyperparameters):
        tree_depth: Annotated[int, Ge(1), Le(10)] | Auto = Field(AUTO, examples=[3], description="Levels of the drafted tree.")
        tree_width: int = Field(4, ge=1, le=16, description="Nodes expanded on each level.")
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[8], description="Drafted tokens that the target checks."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        self.knobs = hyperparameters
        super().__init__(hyperparameters, resources)
        self.depth = upto(hyperparameters.tree_depth, DEEPEST)
        self.size = upto(hyperparameters.tree_size, LARGEST)

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        self.head.forget()

    def _new_governor(self) -> Governor:
        depth, size = self.knobs.tree_depth == AUTO, self.knobs.tree_size == AUTO
        return Governor(self.resources.costs, depth or size, drafts=depth, checks=size)

    def offer(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        depth = min(self.depth, context.budget - 1)
        width = self.knobs.tree_width
        nodes: list[int] = []
        self._expanded: dict[int, int] = {}
        guesses = self.head.draft(context.tokens, depth=depth, width=width, size=self.size, go_on=self._go_on)
        for guess in guesses:
            above = guesses[guess.parent].score if guess.parent >= 0 else 0.0
            drafted = Provenance(Source.DRAFT, step=context.step, confidence=round(math.exp(guess.score - above), 2))
            parent = nodes[guess.parent] if guess.parent >= 0 else 0
            node = builder.add(guess.token, parent, drafted)
            assert node is not None
            self._expanded[parent] = guess.parent
            nodes.append(node)
        return builder.build()

    def asked(self) -> dict[int, Output]:
        self._asked = {node: said for node, guess in self._expanded.items() if (said := self.head.output(guess))}
        return super().asked()

    def _go_on(self, scores: Sequence[float]) -> bool:
        """Whether a pass over nodes with these scores, the root's being 0, is worth its time."""
        chance = HIT * sum(math.exp(score) for score in scores)
        return self.governor.may_draft(self.resources.costs.head, len(scores), chance)
