"""Token Recycling: the target's runners-up of earlier passes become a tree of drafts (arXiv
2408.08696)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, fixed_values, upto
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.lookup.successors import Successors, grow, template
from ouroboros_core.methods.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Need,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

CHANCES = (0.41, 0.10, 0.048, 0.034, 0.027, 0.019, 0.016, 0.014, 0.009, 0.009)
"""How often the target's choice after a known token is the candidate of each rank that was kept the
last time.

Measured along the plain texts of the embedded target on 48 prompts of Spec-Bench's groups; 80% of
the tokens were known.
"""

DEPTH = 6
"""Levels of the static tree, as in the paper."""

LARGEST = 32
"""Nodes of the template where their number is 'auto'."""


class TokenRecycling(Method):
    """A matrix of candidates after each token, renewed at every node of every pass, read through a
    static tree of ranks."""

    id = "token_recycling"
    name = "Token Recycling"
    paper = "https://arxiv.org/abs/2408.08696"
    summary = (
        "No draft model: what the target thought likely after a token the last time is proposed "
        "after it again, as a tree."
    )
    order = 16
    on_map = (Guesser.TARGET, Shape.TREE)
    uses = frozenset({Need.MEMORY})

    published = fixed_values(candidates=8, tree_size=80, extended=False)
    """Section 4.1 and the authors' static tree. There the matrix outlives a question; here it
    does in a warm run."""

    class Hyperparameters(hyperparameters.Hyperparameters):
        candidates: int = Field(
            8, ge=1, le=10, description="Likeliest tokens kept after each token."
        )
        tree_size: Annotated[int, Ge(1), Le(80)] | Auto = Field(
            AUTO,
            examples=[8],
            description="Nodes of the static tree, or as many of 32 as are worth checking.",
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
        size = upto(self.settings.tree_size, LARGEST)
        self.shape = template(CHANCES[: self.settings.candidates], size, DEPTH)

    @property
    def adjustable(self) -> Adjustable | None:
        return Adjustable() if self.settings.tree_size == AUTO else None

    @classmethod
    def new_memory(cls, hyperparameters: Hyperparameters, fingerprint: str = "") -> Successors:
        return Successors(hyperparameters.candidates, fingerprint)

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        kept = of_kind(self.resources.memory, Successors)
        self.known = Successors(self.settings.candidates) if kept is None else kept
        self.known.begin_run(self.settings.candidates)
        if self.settings.extended:
            for token, candidates in prompt.candidates(self.settings.candidates).items():
                self.known.learn(token, candidates)

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.remaining - 1)
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
        """A later node's row replaces an earlier one of the same token, and the accepted path comes
        last; nodes of other proposers count, too."""
        checked = result.checked
        candidates = checked.evaluation.likeliest(self.settings.candidates)
        for node in (*candidates, 0, *checked.path):
            self.known.learn(checked.tree.tokens[node], candidates[node])
