"""Rejection sampling (Leviathan et al., arXiv 2211.17192, algorithm 1; Chen et al., arXiv
2302.01318, algorithm 2)."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

from ouroboros_core.rules.parts.base import Rule, Target, Witness
from ouroboros_core.rules.parts.candidates import K_SEQ, draw_rest, explain_draw, pick
from ouroboros_core.tree import TokenTree


class Rejection(Rule):
    """The text follows the target's distribution, but a seed writes another text than plain
    sampling.

    The children of a node are judged in the order of their proposal. A token drawn from q is
    accepted with probability min(1, p/q); after a rejection p becomes norm(max(0, p - q)). A token
    that was not drawn, such as a phrase, has all mass of its q on itself: it is accepted with
    probability p, and after a rejection its p becomes 0. If no child is accepted, the target token
    is drawn from the remaining p (several candidates: SpecInfer, arXiv 2305.09781, algorithm 2).
    Each candidate that was drawn without replacement has a q of the tokens that were left (arXiv
    2401.06706). Independent draws from one q are judged first, by K-SEQ (arXiv 2310.15141).
    """

    id = "rejection"
    name = "rejection sampling"
    explanation = "keeps each token by min(1, p/q)"
    papers: ClassVar[tuple[str, ...]] = ("2211.17192", "2302.01318")
    order = 2
    needs_probabilities = True
    joint_tests = MappingProxyType({K_SEQ: explain_draw})

    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        path: list[int] = []
        node = 0
        while True:
            p, random = target.probabilities(node), target.generator(node)
            child, p = pick(tree, node, tree.children(node), p, random, witness)
            if child is None:
                return tuple(path), draw_rest(tree, node, p, random, witness)
            path.append(child)
            node = child
