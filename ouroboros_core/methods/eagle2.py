"""EAGLE-2: a one-layer head drafts a tree from the target's own features (arXiv 2401.15077, 2406.16858)."""

from __future__ import annotations

from pydantic import Field

from ouroboros_core import hyperparameters
from ouroboros_core.methods.base import Context, Method, Need, Resources
from ouroboros_core.tree import Provenance, Source, TokenTree, TreeBuilder


class Eagle2(Method):
    """The head's likeliest tokens, expanded level by level, of which the likeliest nodes are kept (section 4 of EAGLE-2)."""

    id = "eagle2"
    name = "EAGLE-2"
    paper = "https://arxiv.org/abs/2406.16858"
    summary = "A one-layer head reads the target's own hidden states and drafts a tree, of which the likeliest part is checked."
    order = 25
    needs = frozenset({Need.HEAD})

    class Hyperparameters(hyperparameters.Hyperparameters):
        tree_depth: int = Field(3, ge=1, le=10, description="Levels of the drafted tree.")
        tree_width: int = Field(4, ge=1, le=16, description="Nodes expanded on each level.")
        tree_size: int = Field(8, ge=1, le=63, description="Drafted tokens that the target checks.")

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.knobs = hyperparameters

    def start(self, prompt: tuple[int, ...], max_new_tokens: int) -> None:
        self.head.forget()

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        knobs = self.knobs
        depth = min(knobs.tree_depth, context.budget - 1)
        nodes: list[int] = []
        for guess in self.head.draft(context.tokens, depth=depth, width=knobs.tree_width, size=knobs.tree_size):
            drafted = Provenance(Source.DRAFT, step=context.step)
            node = builder.add(guess.token, nodes[guess.parent] if guess.parent >= 0 else 0, drafted)
            assert node is not None
            nodes.append(node)
        return builder.build()
