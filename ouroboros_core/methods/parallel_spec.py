"""ParallelSpec: a drafter predicts several tokens in one pass, from mask tokens (arXiv 2410.05589).

A draft of any length costs one pass. Its tokens are independent of each other: each is chosen from
the drafter's probabilities at its position, and rejection sampling uses these probabilities.

There are no published settings: the longest draft is decided when a drafter is trained (`--group`),
so no value fits every drafter. The paper puts its drafter into the trees of Medusa and EAGLE; the
draft here is a chain, or the tree of its likeliest paths, whose tokens are not drawn.
"""

from __future__ import annotations

from typing import cast

from pydantic import Field

from ouroboros_core.interfaces import GroupDrafter
from ouroboros_core.methods.parts.base import Adjustable, Context, Resources
from ouroboros_core.methods.parts.best_first import best_first, grow, likeliest
from ouroboros_core.methods.parts.head_chain import HeadChain
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.methods.parts.stopping import RULES, Stop, new_stop
from ouroboros_core.settings import upto
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain


class ParallelSpec(HeadChain):
    """One pass of the drafter, and a chain of its tokens at each position."""

    id = "parallel_spec"
    name = "ParallelSpec"
    paper = "https://arxiv.org/abs/2410.05589"
    summary = (
        "A one-layer drafter on the target's hidden states predicts several tokens in one pass, "
        "each from its own mask token."
    )
    order = 28
    needs = frozenset({Need.PARALLEL})

    class Hyperparameters(HeadChain.Hyperparameters):
        tree_size: int = Field(
            0,
            ge=0,
            le=63,
            description="Nodes of the likeliest tree, gamma deep; 0: a chain, which `stop` may end "
            "earlier.",
        )

    settings: Hyperparameters

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        self.group = cast(GroupDrafter, self.head)

    @property
    def adjustable(self) -> Adjustable | None:
        return super(HeadChain, self).adjustable if self.settings.tree_size else super().adjustable

    def stop_rule(self) -> Stop:
        rule = self.settings.stop
        return new_stop(rule, min(upto(self.settings.gamma, RULES[rule].MOST), self.group.group))

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root)
        size = self.settings.tree_size
        length = min(self.stop.longest if size else self.stop.length(), context.deepest)
        if length < 1 or len(context.tokens) < 2 or not context.budget.allows_pass():
            return builder.build()
        # Outputs depend on the depth only, so any chain gets all of them.
        line = chain(context.root, [context.root] * (length - 1), Provenance(Source.DRAFT))
        evaluation = self.group.evaluate(context.tokens, line)
        position = len(context.tokens) - 1
        if size:
            positions = range(position + 1, position + 1 + length)
            rows = likeliest(self.resources, evaluation, range(length), positions, size)
            paths = best_first([[chance for _, chance in row] for row in rows], size)
            grow(builder, rows, paths, evaluation, context.step, self.resources.stop_tokens)
            return builder.build()
        choose = self.resources.chooser(evaluation, line, position, context.step)
        drafted = [(node, choose(node)) for node in range(length)]
        shares = evaluation.confidences(drafted)
        for (node, token), share in zip(drafted, shares, strict=True):
            if self.stop.before(evaluation, node):
                break
            origin = Provenance(Source.DRAFT, step=context.step, confidence=round(share, 2))
            builder.note_output(node, (evaluation, node))
            builder.add(token, node, origin, self.resources.drawn_from(evaluation, node))
            if token in self.resources.stop_tokens or self.stop.behind(evaluation, node, share):
                break
        return builder.build()
