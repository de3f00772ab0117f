"""Multi-candidate speculative decoding: several tokens drafted at each place, a product tree (arXiv
2401.06706).

At depth i the draft model proposes k_i different tokens behind every node. Greedy they are its
likeliest ones; sampled they are drawn without replacement. Rejection sampling judges them one after
the other: after a rejection the rejected token is taken out of q, which is scaled up to a whole.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, Counts
from ouroboros_core.methods.parts.adjustable import Adjustable
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel, Frontier
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import without
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

PUBLISHED = {"k_config": "4,2,2"}
"""The settings of the authors' code (github.com/NJUNLP/MCSD); `auto` drafts this shape as far as it
pays."""

DEEPEST, WIDEST, LARGEST = 6, 8, 63
"""Levels, candidates at a place and drafted nodes at most."""


class MultiCandidate(Method):
    """The draft model is decoded level by level, over all nodes of a level in one pass."""

    id = "multi_candidate"
    name = "Multi-candidate speculative decoding"
    paper = "https://arxiv.org/abs/2401.06706"
    summary = (
        "A small draft model proposes several tokens at each place; the target checks the whole "
        "tree of them in one pass."
    )
    order = 22
    on_map = (Guesser.DRAFT_MODEL, Shape.TREE)
    needs = frozenset({Need.DRAFT_MODEL})

    published = PUBLISHED

    class Hyperparameters(hyperparameters.Hyperparameters):
        k_config: Annotated[str, Counts(DEEPEST, WIDEST, LARGEST)] | Auto = Field(
            AUTO,
            examples=[PUBLISHED["k_config"]],
            description="Candidates behind each node, level by level.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        config = hyperparameters.k_config
        self.counts = Counts.read(PUBLISHED["k_config"] if config == AUTO else config)
        self.draft = DraftModel(resources, adjustable=config == AUTO)

    @property
    def adjustable(self) -> Adjustable | None:
        return Adjustable() if self.settings.k_config == AUTO else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        frontier: Frontier = {0: 1.0}
        levels = self.draft.levels(context, builder, frontier, len(self.counts))
        for count, (evaluation, tree) in zip(self.counts, levels, strict=False):
            position = len(context.tokens) - 1
            rank = self.resources.ranker(evaluation, tree, position, context.step, count)
            parents = dict(frontier)
            frontier.clear()
            ranked = {parent: rank(parent) for parent in parents}
            pairs = [(parent, token) for parent, tokens in ranked.items() for token in tokens]
            shares = dict(zip(pairs, evaluation.confidences(pairs), strict=True))
            for parent, reach in parents.items():
                candidates = {token: shares[parent, token] for token in ranked[parent]}
                grown = self._branch(builder, evaluation, parent, candidates, context.step)
                frontier.update((node, reach * share) for node, share in grown.items())
        return builder.build()

    def _branch(
        self,
        builder: TreeBuilder,
        evaluation: Evaluation,
        parent: int,
        candidates: dict[int, float],
        step: int,
    ) -> Frontier:
        """Add candidates (token -> probability) behind a node; those that the text may go on from,
        with their probabilities."""
        drawn_from = self.resources.drawn_from(evaluation, parent)
        grown: Frontier = {}
        for rank, (token, share) in enumerate(candidates.items()):
            origin = Provenance(Source.DRAFT, step=step, rank=rank, confidence=round(share, 2))
            node = builder.add(token, parent, origin, drawn_from)
            assert node is not None
            if token not in self.resources.stop_tokens:
                grown[node] = share
            drawn_from = None if drawn_from is None else without(drawn_from, token)
        return grown
