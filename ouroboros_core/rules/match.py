"""Matching: a proposed token is kept if the target chooses the same one."""

from __future__ import annotations

from collections.abc import Callable

from ouroboros_core.rules.parts.base import Rule, Target, Witness
from ouroboros_core.tree import TokenTree


def verify(tree: TokenTree, choose: Callable[[int], int]) -> tuple[tuple[int, ...], int]:
    """Return the accepted path, as node indices without the root, and the target token after it.

    The target chooses a token after a node. If a child has it, the walk steps down; otherwise the
    walk ends, and the choice is the target token: a *correction* if the last accepted node has
    children, a *bonus* if it has none. The text is the target's own, whatever was proposed
    (Ouroboros, arXiv 2402.13720, section 3; SpecInfer, arXiv 2305.09781, section 4): greedy if
    `choose` is an argmax, sampled if its noise depends on the text position alone (`sampling`).

    choose  node -> the token that the target chooses after it
    """
    path: list[int] = []
    node = 0
    while True:
        token = choose(node)
        child = tree.child(node, token)
        if child is None:
            return tuple(path), token
        path.append(child)
        node = child


class Match(Rule):
    """The rule of greedy text, and the default of sampled text."""

    id = "match"
    name = "matching with shared noise"
    explanation = "keeps a token if the target draws the same one"
    papers = ("2402.13720", "2305.09781", "2408.07978")
    order = 1
    repeats_plain_text = True

    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        return verify(tree, target.choose)
