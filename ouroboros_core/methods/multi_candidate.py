"""Multi-candidate speculative decoding: several draft tokens per position, a product tree (arXiv
2401.06706).

At depth i the draft model proposes k_i different tokens after every node: greedy the likeliest
ones; sampled, tokens drawn without replacement. Rejection sampling judges them one after the other:
after a rejection the rejected token is removed from q, and q is normalised again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

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
from ouroboros_core.methods.parts.drafting import DraftModel, Frontier
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import without
from ouroboros_core.settings import AUTO, Auto, Grammar
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

PUBLISHED = {"k_config": "4,2,2"}
"""Settings of the authors' code (github.com/NJUNLP/MCSD); `auto` drafts this shape as far as it
pays."""

DEEPEST, WIDEST, LARGEST = 6, 8, 63
"""Levels, candidates at a position and drafted nodes at most."""


@dataclass(frozen=True)
class Branching(Grammar):
    """Grammar of a list of whole numbers, such as `4,2,2`: the branches of a tree, level by level.
    `4x2x2` is read as well, for places where commas separate other things.

    levels  largest count of numbers
    widest  largest number; the smallest is 1
    nodes   largest size of the tree, without the root
    """

    levels: int
    widest: int
    nodes: int

    @property
    def allowed(self) -> str:
        """The allowed texts in words."""
        return (
            f"one to {self.levels} numbers between 1 and {self.widest} for at most {self.nodes} "
            "nodes, as in 4,2,2"
        )

    @property
    def samples(self) -> tuple[str, ...]:
        """Some texts that are allowed."""
        return "4,2,2", "1,1"

    @staticmethod
    def read(text: str) -> tuple[int, ...]:
        """Return the numbers of a valid text."""
        return tuple(map(int, text.split(",")))

    def check(self, text: str) -> str:
        """Return the text with commas; raise ValueError for a text that is no such list."""
        words = [word.strip() for word in text.replace("x", ",").split(",")]
        if not all(word.isascii() and word.isdigit() and len(word) < 4 for word in words):
            raise ValueError("not a list of whole numbers")
        numbers = [int(word) for word in words]
        level, nodes = 1, 0
        for number in numbers:
            level *= number
            nodes += level
        if len(numbers) > self.levels or not all(1 <= n <= self.widest for n in numbers):
            raise ValueError("too many numbers, or one that is too large or too small")
        if nodes > self.nodes:
            raise ValueError("too large a tree")
        return ",".join(map(str, numbers))


class MultiCandidate(Method):
    """The draft model is decoded level by level, over all nodes of a level in one pass."""

    id = "multi_candidate"
    name = "Multi-candidate speculative decoding"
    paper = "https://arxiv.org/abs/2401.06706"
    summary = (
        "A small draft model proposes several tokens at each position; the target checks the whole "
        "tree in one pass."
    )
    order = 22
    on_map = (Guesser.DRAFT_MODEL, Shape.TREE)
    needs = frozenset({Need.DRAFT_MODEL})

    published = PUBLISHED
    auto_setting = "k_config"

    class Hyperparameters(settings.Hyperparameters):
        k_config: Annotated[str, Branching(DEEPEST, WIDEST, LARGEST)] | Auto = Field(
            AUTO,
            examples=[PUBLISHED["k_config"]],
            description="Candidates after each node, level by level.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        config = hyperparameters.k_config
        self.counts = Branching.read(PUBLISHED["k_config"] if config == AUTO else config)
        self.draft = DraftModel(resources, adjustable=config == AUTO)

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
        """Add candidates (token -> probability) after a node; return the nodes that the text may
        continue from, with their probabilities."""
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
