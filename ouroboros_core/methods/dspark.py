"""DSpark: a block drafter writes several tokens in one pass, and corrects each by the token before
it (arXiv 2607.05147). Without the correction it is DFlash (arXiv 2602.06036).

A draft of any length costs one pass. Its tokens are chosen one after the other: from a place's
logits plus the correction by the token before. The sum is the distribution that rejection sampling
uses. A confidence says before a token is chosen how likely the target will accept it. A tree of
the likeliest paths costs no further pass either; its tokens are not drawn.

There are no published settings: the longest draft is decided when a drafter is trained (`--block`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from pydantic import Field

from ouroboros_core.interfaces import BlockDrafter
from ouroboros_core.methods.parts.base import Context, Resources, StepBudget
from ouroboros_core.methods.parts.drafting import drafted_chain
from ouroboros_core.methods.parts.head_chain import HeadChain
from ouroboros_core.methods.parts.head_tree import drafted_tree
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.methods.parts.stopping import RULES, LeastAcceptance, Stop, new_stop
from ouroboros_core.settings import upto
from ouroboros_core.tree import TokenTree, TreeBuilder

WIDTH = 8
"""Nodes of a tree's level that are expanded."""


class DSpark(HeadChain):
    """One pass of the drafter, and a chain of corrected tokens."""

    id = "dspark"
    name = "DSpark"
    paper = "https://arxiv.org/abs/2607.05147"
    summary = (
        "A small drafter on the target's hidden states fills a block of positions in one pass; "
        "each token is then corrected given the one before it."
    )
    order = 29
    needs = frozenset({Need.DSPARK})

    class Hyperparameters(HeadChain.Hyperparameters):
        confidence: float = Field(
            0.0,
            ge=0.0,
            le=1.0,
            description=(
                "A chain ends before a token with a smaller chance of acceptance by rejection, as "
                "the drafter estimates it; 0: never."
            ),
        )

        tree_size: int = Field(
            0,
            ge=0,
            le=63,
            description=(
                "Nodes of the likeliest tree, gamma deep; 0: a chain, which `stop` and "
                "`confidence` may end earlier."
            ),
        )

    settings: Hyperparameters

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.block = cast(BlockDrafter, self.head)

    def stop_rule(self) -> Stop:
        rule = self.settings.stop
        longest = min(upto(self.settings.gamma, RULES[rule].MOST), self.block.block)
        return LeastAcceptance(new_stop(rule, longest), self.settings.confidence)

    def propose(self, context: Context) -> TokenTree:
        if len(context.tokens) < 2 or not context.budget.allows_pass():
            return TreeBuilder(context.root).build()
        once = replace(context, budget=StepBudget())  # further tokens need no pass
        if size := self.settings.tree_size:
            return drafted_tree(self.resources, self.block, once, self.stop.longest, WIDTH, size)
        return drafted_chain(self.resources, self.block, once, self.stop)
