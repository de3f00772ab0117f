"""The acceptance rules: walk the tree with the target's own choices, or judge what was drawn.

At a node the target chooses a token. If a proposed child carries it, step down; otherwise emit the
choice and stop. With the choice made by argmax this is greedy decoding; with the choice made from
noise keyed by absolute position (`sampling`) it is exact sampling. Either way the text is the one
the target alone would have written, whatever was proposed (Ouroboros, arXiv 2402.13720, section 3;
SpecInfer, arXiv 2305.09781, section 4). That is `verify`, the default.

`rejection_sampling` is the classical rule (Leviathan et al., arXiv 2211.17192, algorithm 1; Chen et
al., arXiv 2302.01318, algorithm 2): a token drawn from the draft's q is kept with probability
min(1, p/q), and after a rejection the target draws from what is left of p. Where several tokens
were drawn independently from one q, they are judged together by K-SEQ (SpecTr, arXiv 2310.15141).
`block_verification` judges a drafted chain as a whole (Sun et al., arXiv 2403.10444). Under both
the text follows the target's distribution, but it is not the text of plain sampling with the same
seed.

`typical_acceptance` (Medusa, arXiv 2401.10774, section 3.3.1) is NOT lossless: it keeps whatever
the target finds likely enough, and the text follows no distribution of the target's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, Protocol

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


Rule = Literal["token", "k-seq", "block"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A candidate that was judged.

    before    the node that it is a child of
    node      the candidate
    u         the random number in [0, 1)
    p, q      its probability under what was left of the target's p, and under the q that it was
              drawn from; q is None where it was not drawn
    chance    what u is compared with: min(1, p/q), or p where it was not drawn; by K-SEQ
              min(1, p / (rho q)); of a block the probability that it ends here, if not later
    accepted  within a block also where a later token of it is
    """

    before: int
    node: int
    u: float
    p: float
    q: float | None
    chance: float
    accepted: bool
    rule: Rule = "token"


class Witness(Protocol):
    """Is told how a tree is judged."""

    def judged(self, judgement: Judgement) -> None:
        """A candidate was judged; of one node they come in the order in which they are judged."""
        ...

    def left(self, node: int, p: Probabilities) -> None:
        """The probabilities [vocabulary] from which the token after a node is drawn, because no
        candidate there was accepted."""
        ...


def rejection_sampling(
    tree: TokenTree,
    probabilities: Callable[[int], Probabilities],
    generator: Callable[[int], np.random.Generator],
    witness: Witness | None = None,
) -> tuple[tuple[int, ...], int]:
    """The accepted path, as node indices without the root, and the target token that follows it, by
    rejection sampling.

    probabilities  the target's p [vocabulary] after a node
    generator      randomness for the text position after a node, independent of what the draft was
                   drawn with
    witness        is told of every candidate that is judged

    The children of a node are judged in the order in which they were proposed. One drawn from q is
    accepted with probability min(1, p/q); if it is not, p becomes norm(max(0, p - q)). One that was
    not drawn, such as a phrase, has all its mass on itself: it is accepted with probability p, and
    its p becomes 0. Where none is accepted, the token is drawn from the p that is left (several
    candidates: SpecInfer, arXiv 2305.09781, algorithm 2). Candidates drawn without replacement have
    each its own q, that of the tokens not drawn before it (arXiv 2401.06706). Several that were
    drawn independently from one q are judged first, by K-SEQ (arXiv 2310.15141).
    """
    path: list[int] = []
    node = 0
    while True:
        p, random = probabilities(node), generator(node)
        child, p = _pick(tree, node, tree.children(node), p, random, witness)
        if child is None:
            return tuple(path), _draw_left(tree, node, p, random, witness)
        path.append(child)
        node = child


def block_verification(
    tree: TokenTree,
    probabilities: Callable[[int], Probabilities],
    generator: Callable[[int], np.random.Generator],
    witness: Witness | None = None,
) -> tuple[tuple[int, ...], int]:
    """The accepted path and the target token that follows it, a drafted chain judged as one block
    (arXiv 2403.10444, algorithm 2); arguments as for `rejection_sampling`.

    A block is a chain of nodes each of which is its parent's only drawn child. It may be cut at any
    node: the longest part of it that passes is accepted, and of all rules that judge one chain this
    one accepts most tokens in expectation (theorem 2). Where it is cut, other children, such as
    phrases, are judged on what is left of p. Where a node has several drawn children, or none, the
    block ends: its children are judged as by `rejection_sampling`, and a new block may begin behind
    the one that is accepted. Whether a node belongs to a block depends on the tokens up to it
    alone, never on those behind it, so that every tree is judged exactly.
    """
    path: list[int] = []
    node = 0
    while True:
        random = generator(node)
        block = _block(tree, node)
        if block:
            length, p = _judge_block(tree, node, block, probabilities, random, witness)
            path += block[:length]
            node = block[length - 1] if length else node
            others = [child for child in tree.children(node) if child not in block]
        else:
            p, others = probabilities(node), tree.children(node)
        child, p = _pick(tree, node, others, p, random, witness)
        if child is None:
            return tuple(path), _draw_left(tree, node, p, random, witness)
        path.append(child)
        node = child


EPSILON, DELTA = 0.09, 0.3
"""Of typical acceptance, as in the code of its authors; delta is the square root of epsilon."""


def typical_acceptance(
    tree: TokenTree,
    probabilities: Callable[[int], Probabilities],
    generator: Callable[[int], np.random.Generator],
    witness: Witness | None = None,
) -> tuple[tuple[int, ...], int]:
    """The accepted path and the target token that follows it, NOT lossless (arXiv 2401.10774,
    section 3.3.1); arguments as for `rejection_sampling`, but nothing is drawn and nobody is told.

    A node is accepted where its parent is and its p is above min(EPSILON, DELTA * exp(-H(p))),
    where H is the entropy of p in nats: the surer the target, the likelier a token has to be. The
    path is the longest one, of equals the most probable. The target token is the likeliest.
    """
    scores, known = {0: 0.0}, {0: probabilities(0)}
    for node in tree.proposals:
        parent = tree.parents[node]
        if parent not in scores:
            continue
        if parent not in known:
            known[parent] = probabilities(parent)
        p = known[parent]
        chance = float(p[tree.tokens[node]])
        if chance > typical_threshold(p):
            scores[node] = scores[parent] + math.log(chance)
    last = max(scores, key=lambda node: (tree.depths[node], scores[node]))
    p = known[last] if last in known else probabilities(last)
    return tuple(tree.path_to(last)), int(np.argmax(p))


def typical_threshold(p: Probabilities) -> float:
    """The probability above which typical acceptance keeps a token, given p [vocabulary]."""
    possible = p[p > 0]
    entropy = -float((possible * np.log(possible)).sum())
    return min(EPSILON, DELTA * math.exp(-entropy))


SAMPLED_RULES = {
    "rejection": rejection_sampling,
    "block": block_verification,
    "typical": typical_acceptance,
}
"""What judges a tree instead of `verify` where the target samples, by the value of
`acceptance`."""


def _pick(
    tree: TokenTree,
    node: int,
    candidates: Sequence[int],
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int | None, Probabilities]:
    """The child that is accepted, None where none is, and the p that is then left."""
    draws = tree.draws(node)
    if len(draws) > 1:
        child, p = _judge_draws(tree, node, draws, p, random, witness)
        if child is not None:
            return child, p
        candidates = [child for child in candidates if child not in draws]
    for child in candidates:
        token, q = tree.tokens[child], tree.drawn_from(child)
        u, own = random.random(), None if q is None else float(q[token])
        over, chance = 1.0 if own is None else own, float(p[token])
        accepted = u * over < chance
        if witness:
            kept = _chance(chance, over)
            witness.judged(Judgement(node, child, u, chance, own, kept, accepted))
        if accepted:
            return child, p
        p = residual(p, token, q)
    return None, p


def _chance(p: float, over: float) -> float:
    """min(1, p / over)."""
    return min(1.0, p / over) if over > 0 else 1.0


def residual(p: Probabilities, token: int, q: Probabilities | None) -> Probabilities:
    """The residual of p after a rejected candidate; p itself if rounding leaves nothing."""
    left = p.copy()
    if q is None:
        left[token] = 0.0
    else:
        left[: len(q)] = np.maximum(left[: len(q)] - q[: len(left)], 0.0)
    total = left.sum()
    return left / total if total > 0 else p


def _aligned(q: Probabilities, size: int) -> Probabilities:
    """q over a vocabulary of `size` tokens; a draft has no chance beyond the end of its own."""
    return q[:size] if len(q) >= size else np.concatenate([q, np.zeros(size - len(q))])


BISECTIONS = 40
"""After so many, rho is exact to one part in a trillion."""


def k_seq_rho(p: Probabilities, q: Probabilities, draws: int) -> float:
    """The smallest factor rho, between 1 and `draws`, for which K-SEQ keeps p [vocabulary].

    With beta(rho) = sum min(q, p/rho), the chance that one draw is accepted, it is the root of
    1 - (1 - beta)^draws = rho beta (arXiv 2310.15141, K-SEQ), found by bisection: the right side
    rises with rho, and the left side falls.
    """
    low, high = 1.0, float(draws)
    for _ in range(BISECTIONS):
        rho = (low + high) / 2
        beta = min(1.0, float(np.minimum(q, p / rho).sum()))
        low, high = (low, rho) if rho * beta >= 1 - (1 - beta) ** draws else (rho, high)
    return high


def k_seq_residual(p: Probabilities, q: Probabilities, draws: int, rho: float) -> Probabilities:
    """What is left of p after K-SEQ has rejected all of `draws` candidates; p itself where rounding
    leaves nothing."""
    kept = np.minimum(q, p / rho)
    beta = min(1.0, float(kept.sum()))
    if beta == 0:
        return p
    left = np.maximum(p - kept * ((1 - (1 - beta) ** draws) / beta), 0.0)
    total = left.sum()
    return left / total if total > 0 else p


def _judge_draws(
    tree: TokenTree,
    node: int,
    draws: Sequence[int],
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int | None, Probabilities]:
    """K-SEQ: judge independent draws from one q in their order, each kept with probability
    min(1, p / (rho q)); the child that is accepted, None where none is, and the p that is left
    (arXiv 2310.15141, K-SEQ)."""
    drawn_from = tree.drawn_from(draws[0])
    assert drawn_from is not None
    q = _aligned(drawn_from, len(p))
    rho = k_seq_rho(p, q, len(draws))
    for child in draws:
        u, token = random.random(), tree.tokens[child]
        chance, own = float(p[token]), float(q[token])
        accepted = u * rho * own < chance
        if witness:
            kept = _chance(chance, rho * own)
            witness.judged(Judgement(node, child, u, chance, own, kept, accepted, "k-seq"))
        if accepted:
            return child, p
    return None, k_seq_residual(p, q, len(draws), rho)


def _block(tree: TokenTree, node: int) -> list[int]:
    """The chain below a node in which each node is the only one drawn after its parent."""
    block: list[int] = []
    while True:
        drawn = [child for child in tree.children(node) if tree.drawn_from(child) is not None]
        if len(drawn) != 1 or len(tree.draws(node)) > 1:
            return block
        block.append(drawn[0])
        node = drawn[0]


def block_chances(
    p: Sequence[Probabilities], q: Sequence[Probabilities], tokens: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Weights [tokens + 1] and chances [tokens] of a chain, given p and q [vocabulary] at the
    position of each of its tokens.

    weights  w_0 = 1, w_i = min(1, w_(i-1) p/q): the probability that at least i tokens are kept,
             given those i
    chances  that the chain is cut behind token i, given that it is not cut later (arXiv
             2403.10444, algorithm 2)
    """
    weights = [1.0]
    for own, theirs, token in zip(p, q, tokens, strict=True):
        weights.append(_chance(weights[-1] * float(own[token]), float(theirs[token])))
    chances = []
    for weight, own, theirs in zip(weights[1:-1], p[1:], q[1:], strict=True):
        lacking = float(np.maximum(weight * own - theirs, 0.0).sum())
        rest = lacking + 1.0 - weight
        chances.append(lacking / rest if rest > 0 else 1.0)
    return weights, [*chances, weights[-1]]


def _judge_block(
    tree: TokenTree,
    node: int,
    block: Sequence[int],
    probabilities: Callable[[int], Probabilities],
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int, Probabilities]:
    """How many nodes of a block below `node` are accepted, and the p that is left behind them.

    All its random numbers are those of the block's first position: a later position may be judged
    again at the next step, and must then have its own.
    """
    above = (node, *block[:-1])
    p = [probabilities(parent) for parent in above]
    drawn = [tree.drawn_from(child) for child in block]
    q = [_aligned(one, len(p[0])) for one in drawn if one is not None]
    tokens = [tree.tokens[child] for child in block]
    weights, chances = block_chances(p, q, tokens)
    numbers = random.random(len(block))
    passed = [n for n, chance in enumerate(chances, 1) if numbers[n - 1] < chance]
    length = max(passed, default=0)
    if witness:
        facts = zip(above, block, numbers, p, q, tokens, chances, strict=True)
        for n, (before, child, u, own, theirs, token, chance) in enumerate(facts):
            both = float(own[token]), float(theirs[token])
            kept = n < length
            witness.judged(Judgement(before, child, float(u), *both, chance, kept, "block"))
    if length == len(block):
        return length, probabilities(block[-1])
    left = np.maximum(weights[length] * p[length] - q[length], 0.0)
    total = left.sum()
    return length, left / total if total > 0 else p[length]


def _draw_left(
    tree: TokenTree,
    node: int,
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> int:
    """The target token, drawn from the p that is left after a node's children."""
    if witness and tree.children(node):
        witness.left(node, p)
    return _draw(p, random)


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
