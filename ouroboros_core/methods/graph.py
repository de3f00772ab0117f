"""Graph-structured speculative decoding: equal continuations are drafted once (arXiv 2407.16207).

The branches of a drafted tree share many sequences of tokens. A new node with the same last tokens
as another node is merged with it: the draft model continues after one of them only, and the tree
becomes a directed graph. For the target it is unrolled into a tree again, breadth first: the
children of a merged node are copies of the children of the other node.

Sampled, the candidates of a position are drawn without replacement, as in `multi_candidate`. A copy
was drawn for another position: rejection sampling keeps it with the target's probability, like a
phrase.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    StepNotes,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel, Frontier, Level
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import likely, without
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import ROOT, Evaluation, Probabilities, Provenance, TokenTree, TreeBuilder

DEEPEST = 8
"""Levels at most if their number is 'auto'."""


@dataclass
class _Node:
    """A node of the graph.

    parent  -1 for the root
    ending  the last tokens of the text up to the node, its key
    drawn_from  the probabilities that its token was drawn from
    read    number in the tree that the draft model reads; None if it is not read
    same    the node that it is merged with
    """

    token: int
    parent: int
    ending: tuple[int, ...]
    origin: Provenance = ROOT
    drawn_from: Probabilities | None = None
    read: int | None = None
    same: int | None = None
    children: list[int] = field(default_factory=list)


@dataclass
class _Graph:
    """The draft of a step: its nodes, the root first.

    reading   the tree of the nodes after which the draft model computes outputs
    frontier  nodes of that tree for the next draft pass
    by_ending the first node with an ending
    merged    nodes of the last level that were merged with others; `reach`: the probability of
              reaching one of them
    """

    nodes: list[_Node]
    reading: TreeBuilder
    frontier: Frontier = field(default_factory=lambda: {0: 1.0})
    by_ending: dict[tuple[int, ...], int] = field(default_factory=dict)
    merged: int = 0
    reach: float = 0.0

    def above(self, index: int) -> list[int]:
        """Return the nodes from this one up to the root."""
        path = []
        while index >= 0:
            path.append(index)
            index = self.nodes[index].parent
        return path

    def merge(self, index: int, reach: float) -> bool:
        """Merge a node with one of the same ending that is not above it; return whether there is
        one."""
        node = self.nodes[index]
        equal = self.by_ending.setdefault(node.ending, index) if node.ending else index
        if equal in self.above(index):
            return False
        node.same = equal
        self.merged, self.reach = self.merged + 1, self.reach + reach
        return True

    def unroll(self, evaluation: Evaluation | None, size: int, depth: int) -> TokenTree:
        """Return the graph as a tree of at most `size` nodes and `depth` levels, breadth first."""
        builder = TreeBuilder(self.nodes[0].token, max_depth=depth)
        waiting = deque([(0, 0, 0)])  # in the graph, in the tree, tokens that match; 0: no copy
        while waiting:
            index, number, match = waiting.popleft()
            node = self.nodes[index]
            if node.read is not None and node.children and evaluation is not None and not match:
                builder.note_output(number, (evaluation, node.read))
            if node.same is not None:
                node, match = self.nodes[node.same], len(node.ending)
            for child in node.children:
                if len(builder) > size:
                    return builder.build()
                below = self.nodes[child]
                origin = replace(below.origin, match=match) if match else below.origin
                drawn_from = None if match else below.drawn_from
                added = builder.add(below.token, number, origin, drawn_from)
                if added is not None:
                    waiting.append((child, added, match + 1 if match else 0))
        return builder.build()


class Graph(Method):
    """The draft model is decoded level by level, over the nodes of a level that were not merged."""

    id = "graph"
    name = "Graph-structured speculative decoding"
    paper = "https://arxiv.org/abs/2407.16207"
    summary = (
        "A small draft model drafts a tree in which identical continuations are computed once; the "
        "target checks it in one pass."
    )
    order = 24
    on_map = (Guesser.DRAFT_MODEL, Shape.GRAPH)
    needs = frozenset({Need.DRAFT_MODEL})
    reads_distributions = True

    published = fixed_values(
        tree_depth=12,
        candidates=4,
        merge_tokens=2,
        sibling_threshold=0.1,
        prob_threshold=0.3,
        tree_size=99,
    )
    """From the settings that the authors' code tries (github.com/gzhch/gsd): 4 candidates, endings
    of two tokens, and the lowest thresholds; 100 rows with the root. The depth is the length of the
    chain that the authors compare it with."""
    auto_setting = "tree_depth"

    class Hyperparameters(settings.Hyperparameters):
        tree_depth: Annotated[int, Ge(1), Le(16)] | Auto = Field(
            AUTO, examples=[3], description="Levels of the drafted tree."
        )
        candidates: int = Field(4, ge=1, le=8, description="Candidates after each node at most.")
        merge_tokens: int = Field(
            2, ge=0, le=8, description="So many equal last tokens make nodes one; 0 merges nothing."
        )
        sibling_threshold: float = Field(
            0.1,
            ge=0.0,
            le=1.0,
            description="Share of the best candidate's probability that the others need.",
        )
        prob_threshold: float = Field(
            0.3, ge=0.0, le=1.0, description="Below this draft probability a branch ends."
        )
        tree_size: int = Field(32, ge=1, le=128, description="Nodes of the unrolled tree at most.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self._rows_saved = 0
        self.depth = upto(hyperparameters.tree_depth, DEEPEST)
        self.draft = DraftModel(resources, adjustable=hyperparameters.tree_depth == AUTO)

    @property
    def notes(self) -> StepNotes:
        return StepNotes(draft_rows_saved=self._rows_saved)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        root = _Node(context.root, -1, self._ending(context.tokens), read=0)
        graph = _Graph([root], TreeBuilder(context.root))
        evaluation: Evaluation | None = None
        indices = {0: 0}
        saved = passes = 0
        for level in self.draft.levels(context, graph.reading, graph.frontier, self.depth):
            evaluation, passes = level[0], passes + 1
            saved, graph.merged, graph.reach = saved + graph.merged, 0, 0.0
            indices = self._grow(graph, level, indices, context)
        if (
            passes < min(self.depth, context.deepest)
            and not graph.frontier
            and context.budget.allows_pass(graph.reach, graph.merged)
        ):
            saved += graph.merged
        self._rows_saved = saved
        return graph.unroll(evaluation, self.settings.tree_size, context.deepest)

    def _ending(self, tokens: Sequence[int]) -> tuple[int, ...]:
        count = self.settings.merge_tokens
        return tuple(tokens[-count:]) if count else ()

    def _grow(
        self, graph: _Graph, level: Level, indices: dict[int, int], context: Context
    ) -> dict[int, int]:
        """Add a level to the graph; return `indices` for the next level.

        indices  number in the draft's tree -> index in the graph, of the nodes of a level
        """
        reaches = dict(graph.frontier)
        graph.frontier.clear()
        following: dict[int, int] = {}
        for read, candidates in self._candidates(level, list(reaches), context).items():
            for rank, (token, share, drawn_from) in enumerate(candidates):
                if len(graph.nodes) > self.settings.tree_size:
                    return following
                index, above = len(graph.nodes), graph.nodes[indices[read]]
                ending = self._ending((*above.ending, token))
                origin = Provenance(
                    Source.DRAFT, step=context.step, rank=rank, confidence=round(share, 2)
                )
                graph.nodes.append(_Node(token, indices[read], ending, origin, drawn_from))
                above.children.append(index)
                if token in self.resources.stop_tokens or share < self.settings.prob_threshold:
                    continue
                reach = reaches[read] * share
                if not graph.merge(index, reach):
                    number = graph.reading.add(token, read, origin)
                    assert number is not None
                    graph.nodes[index].read = number
                    graph.frontier[number], following[number] = reach, index
        return following

    def _candidates(
        self, level: Level, nodes: list[int], context: Context
    ) -> dict[int, list[tuple[int, float, Probabilities | None]]]:
        """Return the candidates after some nodes of the draft's tree, each as (token, probability,
        probabilities that it was drawn from)."""
        evaluation, count = level[0], self.settings.candidates
        least = self.settings.sibling_threshold
        if self.resources.sampler.sampling.temperature == 0:
            scored = zip(nodes, evaluation.scored(nodes, count), strict=True)
            return {
                node: [
                    (token, math.exp(score), None)
                    for token, score in likeliest
                    if math.exp(score) >= least * math.exp(likeliest[0][1])
                ]
                for node, likeliest in scored
            }
        position = len(context.tokens) - 1
        rank = self.resources.ranker(*level, position, context.step, count, least)
        drawn: dict[int, list[tuple[int, float, Probabilities | None]]] = {}
        for node in nodes:
            q = self.resources.drawn_from(evaluation, node)
            q = None if q is None else likely(q, least)
            drawn[node] = []
            for token in rank(node):
                drawn[node].append((token, evaluation.confidence(node, token), q))
                q = None if q is None else without(q, token)
        return drawn
