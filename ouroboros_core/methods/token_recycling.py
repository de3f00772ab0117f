"""Token Recycling: the target's runners-up of earlier passes become a tree of drafts (arXiv
2408.08696)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.successors import Successors, by_children, grow, template
from ouroboros_core.methods.parts.base import (
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Auto, fixed_values, upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

AUTHORS = (
    *(8,),
    *(8, 4, 3, 2, 1, 1, 1, 1),
    *(8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0),
    *(5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0),
    *(3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0),
    *(2, 0, 0, 1),
)
"""Children of each node of the authors' static tree, level by level from the root; the last nodes,
which have none, are left out.

Their code, version 2.2.2 of the tree: 8, 21, 25, 15, 8 and 3 nodes
(github.com/Luowaterbi/TokenRecycling, model/recycling/tree_template_.py).
"""

WHOLE = sum(AUTHORS)
"""Nodes of the authors' tree."""

SAM_DECODING = (
    *(7,),
    *(6, 5, 3, 2, 2, 1, 1),
    *(3, 2, 2, 1, 1, 0, 3, 2, 1, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0),
    *(2, 1, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0),
    *(2, 0, 1, 0, 1),
)
"""Children of each node of the static tree that drafts in the code of SAM-Decoding's authors, in
the same order.

7, 20, 21, 8 and 4 nodes (github.com/hyx1999/SAM-Decoding, samd/config/token_recycle.json).
"""

STATIC = {sum(counts): counts for counts in (AUTHORS, SAM_DECODING)}
"""The published trees, by their nodes."""

DEPTH = 6
"""Levels of a smaller static tree, as many as the authors' has."""

LARGEST = 32
"""Nodes of the template if their number is 'auto'."""


class TokenRecycling(Method):
    """A matrix of candidates after each token, updated at every node of every pass and read
    through a static tree of ranks."""

    id = "token_recycling"
    name = "Token Recycling"
    paper = "https://arxiv.org/abs/2408.08696"
    summary = (
        "No draft model: proposes a tree of the tokens that the target found likely the last time "
        "each token appeared."
    )
    order = 16
    on_map = (Guesser.TARGET, Shape.TREE)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(candidates=8, tree_size=WHOLE, extended=False)
    """Section 4.1, with the static tree of the authors' code. There the matrix outlives a question,
    as in a warm run here."""
    auto_setting = "tree_size"

    class Hyperparameters(settings.Hyperparameters):
        candidates: int = Field(
            8, ge=1, le=10, description="Likeliest tokens kept after each token."
        )
        tree_size: Annotated[int, Ge(1), Le(WHOLE)] | Auto = Field(
            AUTO,
            examples=[8],
            description=(
                "Nodes of the static tree, 80 being the authors' own and 60 SAM-Decoding's, or as "
                "many of 32 as are worth checking."
            ),
        )
        extended: bool = Field(
            False,
            description=(
                "Beyond the paper: begin with what the target says after each token of the prompt."
            ),
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.settings = hyperparameters
        self.known = Successors(self.settings.candidates)
        self.shape = static_tree(self.settings.candidates, upto(self.settings.tree_size, LARGEST))

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> Successors:
        return Successors(hyperparameters.candidates, fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        memory = of_kind(self.resources.memory, Successors)
        self.known = Successors(self.settings.candidates) if memory is None else memory
        self.known.begin_run(self.settings.candidates)
        if self.settings.extended:
            for token, candidates in prompt.candidates(self.settings.candidates).items():
                self.known.learn(token, candidates)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        nodes: list[int | None] = []
        for token, parent, rank in grow(self.known, context.root, self.shape):
            above = nodes[parent] if parent >= 0 else 0
            dead = above is None or (above and builder.token(above) in self.resources.stop_tokens)
            recalled = self.known.recalls(builder.token(above) if above else context.root)
            learned = Learned.HISTORY if recalled else None
            recycled = Provenance(Source.RECYCLED, learned, context.step, rank=rank)
            nodes.append(None if dead else builder.add(token, above or 0, recycled))
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        """Replace the rows of all checked tokens, also of other proposers. A later node
        of the same token wins; the accepted path comes last."""
        checked = result.checked
        candidates = checked.evaluation.likeliest(self.settings.candidates)
        for node in (*candidates, 0, *checked.path):
            self.known.learn(checked.tree.tokens[node], candidates[node])


def static_tree(candidates: int, size: int) -> list[tuple[int, int]]:
    """Return the published tree of this size. For other sizes, take the likeliest paths by the
    prior probability of each of the first `candidates` ranks."""
    if size in STATIC:
        return by_children(STATIC[size])
    ranks = (Provenance(Source.RECYCLED, rank=rank) for rank in range(candidates))
    return template([rank.prior(1) for rank in ranks], size, DEPTH)
