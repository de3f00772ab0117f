"""The acceptance rules: walk the tree with the target's own choices, or by rejection sampling.

At a node the target chooses a token. If a proposed child carries it, step down; otherwise emit the
choice and stop. With the choice made by argmax this is greedy decoding; with the choice made from
noise keyed by absolute position (`sampling`) it is exact sampling. Either way the text is the one
the target alone would have written, whatever was proposed (Ouroboros, arXiv 2402.13720, section 3;
SpecInfer, arXiv 2305.09781, section 4). That is `verify`, the default.

`rejection_sampling` is the classical rule (Leviathan et al., arXiv 2211.17192, algorithm 1; Chen et
al., arXiv 2302.01318, algorithm 2): a token drawn from the draft's q is kept with probability
min(1, p/q), and after a rejection the target draws from what is left of p. The text then follows
the target's distribution, but it is not the text of plain sampling with the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from ouroboros_core.tree import Probabilities, TokenTree

Choose = Callable[[int], int]
"""The token that a model chooses after a node of the tree."""


def verify(tree: TokenTree, choose: Choose) -> tuple[tuple[int, ...], int]:
    """The accepted path, as node indices without the root, and the target token that follows it.

    The target token is a *correction* if the last accepted node had children, and a *bonus* if it
    had none.
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


Note = Callable[[int, int, float, float, float | None, bool], None]
"""Told of a candidate: its parent node, itself, u, its chance under p and under q (None: it was not
drawn), the verdict."""


def rejection_sampling(
    tree: TokenTree,
    probabilities: Callable[[int], Probabilities],
    generator: Callable[[int], np.random.Generator],
    note: Note | None = None,
) -> tuple[tuple[int, ...], int]:
    """The accepted path, as node indices without the root, and the target token that follows it, by
    rejection sampling.

    probabilities  the target's p [vocabulary] after a node
    generator      randomness for the text position after a node, independent of what the draft was
                   drawn with
    note           is told of every candidate that is judged

    The children of a node are judged in the order in which they were proposed. One drawn from q is
    accepted with probability min(1, p/q); if it is not, p becomes norm(max(0, p - q)). One that was
    not drawn, such as a phrase, has all its mass on itself: it is accepted with probability p, and
    its p becomes 0. Where none is accepted, the token is drawn from the p that is left (several
    candidates: SpecInfer, arXiv 2305.09781, algorithm 2).
    """
    path: list[int] = []
    node = 0
    while True:
        p, random = probabilities(node), generator(node)
        for child in tree.children(node):
            token, q = tree.tokens[child], tree.drawn_from(child)
            u = random.random()
            accepted = bool(u * (1.0 if q is None else q[token]) < p[token])
            if note:
                note(
                    node,
                    child,
                    u,
                    float(p[token]),
                    None if q is None else float(q[token]),
                    accepted,
                )
            if accepted:
                path.append(child)
                node = child
                break
            p = residual(p, token, q)
        else:
            return tuple(path), _draw(p, random)


def residual(p: Probabilities, token: int, q: Probabilities | None) -> Probabilities:
    """The residual of p after a rejected candidate; p itself if rounding leaves nothing."""
    left = p.copy()
    if q is None:
        left[token] = 0.0
    else:
        left[: len(q)] = np.maximum(left[: len(q)] - q[: len(left)], 0.0)
    total = left.sum()
    return left / total if total > 0 else p


def _draw(p: Probabilities, random: np.random.Generator) -> int:
    mass = np.cumsum(p)
    return int(np.searchsorted(mass, random.random() * mass[-1], side="right"))


def until_stop(tokens: Sequence[int], stop_tokens: AbstractSet[int]) -> tuple[int, ...]:
    """The tokens up to and including the first stop token."""
    if stop_tokens.isdisjoint(tokens):
        return tuple(tokens)
    return tuple(tokens[: next(n for n, token in enumerate(tokens, 1) if token in stop_tokens)])


def truncate(
    tree: TokenTree,
    path: tuple[int, ...],
    target_token: int,
    stop_tokens: AbstractSet[int],
    budget: int,
) -> tuple[tuple[int, ...], int | None]:
    """End a step at the first stop token (which stays) and at `budget` tokens; target_token is None
    if the path is cut."""
    for length, node in enumerate(path, 1):
        if tree.tokens[node] in stop_tokens or length == budget:
            return path[:length], None
    return path, target_token
