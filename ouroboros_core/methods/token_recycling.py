"""Token Recycling: the target's runners-up of earlier passes become a tree of drafts (arXiv 2408.08696)."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.hyperparameters import AUTO, Auto, upto
from ouroboros_core.memory.adjacency import Successors, grow, template
from ouroboros_core.methods.base import Context, Method, Resources, Verdict
from ouroboros_core.models.language_model import Candidates
from ouroboros_core.tree import Provenance, Source, TokenTree, TreeBuilder

CHANCES = (0.41, 0.10, 0.048, 0.034, 0.027, 0.019, 0.016, 0.014, 0.009, 0.009)
"""How often the target's choice after a known token is the candidate of each rank that was kept the last time.

Measured along the plain texts of the embedded target on 48 prompts of Spec-Bench's groups; 80% of the tokens were known.
"""

DEPTH = 6
"""Levels of the static tree, as in the paper."""

LARGEST = 32
"""Nodes of the template where the method chooses how many of them to check."""


class TokenRecycling(Method):
    """A matrix of candidates after each token, renewed at every node of every pass, read through a static tree of ranks."""

    id = "token_recycling"
    name = "Token Recycling"
    paper = "https://arxiv.org/abs/2408.08696"
    summary = "No draft model: what the target thought likely after a token the last time is proposed after it again, as a tree."
    order = 16

    class Hyperparameters(hyperparameters.Hyperparameters):
        candidates: int = Field(8, ge=1, le=10, description="Likeliest tokens kept after each token.")
        tree_size: Annotated[int, Ge(1), Le(80)] | Auto = Field(
            AUTO, examples=[8], description="Nodes of the static tree, or as many of 32 as are worth checking."
        )
        read_prompt: bool = Field(True, description="Begin with what the target says after each token of the prompt.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.knobs = hyperparameters
        self.known = Successors(self.knobs.candidates)
        size = upto(self.knobs.tree_size, LARGEST)
        self.shape = template(CHANCES[: self.knobs.candidates], size, DEPTH)

    @property
    def prompt_candidates(self) -> int:
        return self.knobs.candidates if self.knobs.read_prompt else 0

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        super().start(prompt, max_new_tokens)
        self.known = Successors(self.knobs.candidates)

    def read_prompt(self, likeliest: Candidates) -> None:
        for token, candidates in likeliest.items():
            self.known.learn(token, candidates)

    def offer(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.budget - 1)
        nodes: list[int | None] = []
        for token, parent, rank in grow(self.known, context.root, self.shape):
            above = nodes[parent] if parent >= 0 else 0
            dead = above is None or (above and builder.token(above) in self.resources.stop_tokens)
            recycled = Provenance(Source.RECYCLED, step=context.step, rank=rank)
            nodes.append(None if dead else builder.add(token, above or 0, recycled))
        return builder.build()

    def learn(self, verdict: Verdict) -> None:
        """Rows of later nodes win over earlier ones of the same token, and those of the accepted path over all."""
        candidates = verdict.evaluation.likeliest(self.knobs.candidates)
        for node in (*candidates, 0, *verdict.path):
            self.known.learn(verdict.tree.tokens[node], candidates[node])

    watch = learn
