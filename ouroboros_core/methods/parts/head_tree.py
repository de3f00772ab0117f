"""The dynamic tree of EAGLE-2 and EAGLE-3: the head's likeliest tokens, level by level (arXiv
2406.16858, section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.interfaces import Drafter
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.best_first import likeliest
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

DEEPEST = 8
"""Levels at most if their number is 'auto'."""

LARGEST = 48
"""Nodes proposed if their number is 'auto'."""


@dataclass
class _Node:
    """A drafted token: the index of its parent, its cumulative log-probability, and its node in the
    tree that the head has read, None if it has not."""

    token: int
    parent: int
    score: float
    read: int | None = None


class HeadTree(Method):
    """The head's likeliest tokens, expanded level by level; the likeliest nodes are proposed."""

    on_map = (Guesser.HEAD, Shape.TREE)

    published = fixed_values(tree_depth=6, tree_width=10, tree_size=59)
    """Settings of the authors' code for a 7B model, with either head: a first level and 5 rounds
    after it, the 10 likeliest each, 60 nodes with the root."""

    class Hyperparameters(settings.Hyperparameters):
        tree_depth: Annotated[int, Ge(1), Le(10)] | Auto = Field(
            AUTO, examples=[3], description="Levels of the drafted tree."
        )
        tree_width: int = Field(4, ge=1, le=16, description="Nodes expanded on each level.")
        tree_size: Annotated[int, Ge(1), Le(63)] | Auto = Field(
            AUTO, examples=[8], description="Drafted tokens that the target checks."
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.depth = upto(hyperparameters.tree_depth, DEEPEST)
        self.size = upto(hyperparameters.tree_size, LARGEST)

    @property
    def adjustable(self) -> Adjustable | None:
        depth, size = self.settings.tree_depth == AUTO, self.settings.tree_size == AUTO
        return Adjustable(drafting=depth, checking=size) if depth or size else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        head = self.resources.head(self.needs)
        assert head is not None
        self.head = head
        self.head.forget()

    def propose(self, context: Context) -> TokenTree:
        width = self.settings.tree_width
        return drafted_tree(self.resources, self.head, context, self.depth, width, self.size)


def drafted_tree(
    resources: Resources, head: Drafter, context: Context, depth: int, width: int, size: int
) -> TokenTree:
    """Return the tree of the `size` likeliest nodes that a head drafts, by one pass for each level.

    If sampling by `match`, nodes are likely to be the target's with the noise at their positions.

    depth  levels at most; fewer if the text ends or another pass is not worth its time
    width  nodes that are expanded on each level
    """
    nodes, evaluation = _drafted(resources, head, context, min(depth, context.deepest), width)
    # A child is never likelier than its parent, so the likeliest nodes are connected.
    order = sorted(range(1, len(nodes)), key=lambda index: (-nodes[index].score, index))
    builder, numbers = TreeBuilder(context.root), {0: 0}
    for index in sorted(order[:size]):
        node = nodes[index]
        confidence = math.exp(node.score - nodes[node.parent].score)
        origin = Provenance(Source.DRAFT, step=context.step, confidence=round(confidence, 2))
        number = builder.add(node.token, numbers[node.parent], origin)
        assert number is not None
        numbers[index] = number
    for index, number in numbers.items():
        read = nodes[index].read
        if read is not None and evaluation is not None:
            builder.note_output(number, (evaluation, read))
    return builder.build()


def _drafted(
    resources: Resources, head: Drafter, context: Context, depth: int, width: int
) -> tuple[list[_Node], Evaluation | None]:
    """Return all drafted nodes, the root first, and the head's outputs after the nodes that it has
    read."""
    nodes = [_Node(context.root, -1, 0.0)]
    if depth < 1 or len(context.tokens) < 2 or not context.budget.allows_pass():
        return nodes, None
    tree = TreeBuilder(context.root)
    nodes[0].read = 0
    evaluation = head.evaluate(context.tokens, tree.build())
    frontier = [0]
    for level in range(1, depth + 1):
        first = len(nodes)
        read = [nodes[index].read or 0 for index in frontier]
        positions = [len(context.tokens) + level - 1] * len(read)
        for index, row in zip(
            frontier, likeliest(resources, evaluation, read, positions, width), strict=True
        ):
            score = nodes[index].score
            nodes += [_Node(token, index, score + math.log(chance)) for token, chance in row]
        goes_on = [
            index
            for index in range(first, len(nodes))
            if nodes[index].token not in resources.stop_tokens
        ]
        frontier = sorted(sorted(goes_on, key=lambda index: -nodes[index].score)[:width])
        reach = sum(math.exp(nodes[index].score) for index in frontier)
        if not frontier or level == depth or not context.budget.allows_pass(reach, len(frontier)):
            break
        for index in frontier:
            above = nodes[nodes[index].parent].read
            assert above is not None
            nodes[index].read = tree.add(nodes[index].token, above, Provenance(Source.DRAFT))
        evaluation = head.extend(evaluation, tree.build())
    return nodes, evaluation
