"""The acceptance rule: walk the tree with the target's own choices.

At a node the target chooses a token. If a proposed child carries it, step down; otherwise emit the choice and stop. With the
choice made by argmax this is greedy decoding; with the choice made from noise keyed by absolute position (`sampling`) it is
exact sampling. Either way the text is the one the target alone would have written, whatever was proposed (Ouroboros,
arXiv 2402.13720, section 3; SpecInfer, arXiv 2305.09781, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from ouroboros_core.tree import TokenTree

Choose = Callable[[int], int]
"""The token that a model chooses after a node of the tree."""


def verify(tree: TokenTree, choose: Choose) -> tuple[tuple[int, ...], int]:
    """The accepted path, as node indices without the root, and the target token that follows it.

    The target token is a *correction* if the last accepted node had children, and a *bonus* if it had none.
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


def cut(
    tree: TokenTree, path: tuple[int, ...], target_token: int, stop_tokens: AbstractSet[int], budget: int
) -> tuple[tuple[int, ...], int | None]:
    """End a step at the first stop token (which stays) and at `budget` tokens; target_token is None where the path is cut."""
    for length, node in enumerate(path, 1):
        if tree.tokens[node] in stop_tokens or length == budget:
            return path[:length], None
    return path, target_token
