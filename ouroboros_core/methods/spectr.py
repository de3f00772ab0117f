"""SpecTr: several independent chains from the draft model, judged together by K-SEQ (arXiv
2310.15141).

The chains form one tree, in which equal beginnings share nodes. Rejection sampling judges the
tokens that the chains have at a position in their order and keeps each with probability
min(1, p / (rho q)); the chains with the accepted token continue. Under `match` the first chain is
drawn with the target's noise and each other chain with different noise. Greedy, all chains are
equal.
"""

from __future__ import annotations

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
    TokenizedPrompt,
)
from ouroboros_core.methods.parts.drafting import DraftModel, Frontier, Level
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Probabilities, Provenance, TokenTree, TreeBuilder

PUBLISHED = {"gamma": 8, "chains": 8}
"""L and K of the paper's fastest runs."""

LONGEST = 16
"""Draft tokens of a chain at most if their number is 'auto'."""


class SpecTr(Method):
    """The draft model is decoded level by level, over the tips of all chains in one pass."""

    id = "spectr"
    name = "SpecTr"
    paper = "https://arxiv.org/abs/2310.15141"
    summary = (
        "A small draft model draws several chains independently; the target checks all of them in "
        "one pass."
    )
    order = 23
    on_map = (Guesser.DRAFT_MODEL, Shape.CHAINS)
    needs = frozenset({Need.DRAFT_MODEL})

    published = PUBLISHED
    auto_setting = "gamma"

    class Hyperparameters(settings.Hyperparameters):
        gamma: Annotated[int, Ge(1), Le(32)] | Auto = Field(
            AUTO, examples=[2], description="Draft tokens per step."
        )
        chains: int = Field(4, ge=1, le=8, description="Chains drawn independently (K).")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.gamma = upto(hyperparameters.gamma, LONGEST)
        greedy = resources.sampler.sampling.temperature == 0
        self.chains = 1 if greedy else hyperparameters.chains
        self.draft = DraftModel(resources, adjustable=hyperparameters.gamma == AUTO)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self.draft.start(prompt, max_new_tokens)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        frontier: Frontier = {0: 1.0}
        tips = dict.fromkeys(range(self.chains), 0)
        for level in self.draft.levels(context, builder, frontier, self.gamma):
            parents = dict(frontier)
            frontier.clear()
            probabilities = {node: self.resources.drawn_from(level[0], node) for node in parents}
            for chain, tip in list(tips.items()):
                token, share = self._drawn(level, tip, chain, context)
                origin = Provenance(Source.DRAFT, step=context.step, confidence=round(share, 2))
                tips[chain] = _hang(builder, token, tip, origin, chain, probabilities[tip])
                if token in self.resources.stop_tokens:
                    del tips[chain]
                else:
                    frontier[tips[chain]] = parents[tip] * share
        return builder.build()

    def _drawn(self, level: Level, tip: int, chain: int, context: Context) -> tuple[int, float]:
        """Return a chain's next token, and the draft's probability of it."""
        evaluation: Evaluation = level[0]
        position = len(context.tokens) - 1
        token = self.resources.chooser(*level, position, context.step, chain)(tip)
        return token, evaluation.confidence(tip, token)


def _hang(
    builder: TreeBuilder,
    token: int,
    tip: int,
    origin: Provenance,
    chain: int,
    drawn_from: Probabilities | None,
) -> int:
    """Add a chain's next token; return its node, which chains with equal beginnings share."""
    if drawn_from is None:
        node = builder.add(token, tip, origin)
    else:
        node = builder.draw(token, tip, origin, chain, drawn_from)
    assert node is not None
    return node
