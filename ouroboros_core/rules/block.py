"""Block verification (Sun et al., arXiv 2403.10444): a drafted chain is judged as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from ouroboros_core.arrays import np
from ouroboros_core.rules.parts.base import Judgement, Rule, Target, Witness
from ouroboros_core.rules.parts.candidates import (
    K_SEQ,
    aligned,
    capped_ratio,
    draw_rest,
    explain_draw,
    pick,
)
from ouroboros_core.tree import Probabilities, TokenTree

BLOCK = "block"
"""Name of the test of a block's token."""


def explain_cut(token: str, u: float, chance: float, accepted: bool) -> str:
    """Return the words for the trial of a block's token."""
    if accepted and u >= chance:
        return f"a longer part of the draft was kept as a block, {token} within it"
    sign = "<" if accepted else "≥"
    return (
        f"the draft may be cut behind {token} with chance {chance:.3g}, and u = {u:.3g} {sign} that"
    )


class Block(Rule):
    """The text follows the target's distribution (algorithm 2 of the paper).

    A block is a chain in which each node is its parent's only drawn child. It may be cut at any
    node: the longest part that passes is accepted. Among all rules that judge one chain this one
    accepts most tokens in expectation (theorem 2). At the cut, other children, such as phrases, are
    judged on the remaining p. A block ends at a node with several drawn children or with none: its
    children are judged by rejection sampling, and a new block may begin below the accepted child.
    A node's place in a block depends on the tokens before it alone, so every tree is judged
    exactly.
    """

    id = "block"
    name = "block verification"
    explanation = "judges a drafted chain as a whole"
    papers = ("2403.10444",)
    order = 3
    needs_probabilities = True
    joint_tests = MappingProxyType({K_SEQ: explain_draw, BLOCK: explain_cut})

    def judge(
        self, tree: TokenTree, target: Target, witness: Witness | None = None
    ) -> tuple[tuple[int, ...], int]:
        path: list[int] = []
        node = 0
        while True:
            random = target.generator(node)
            block = block_below(tree, node)
            if block:
                length, p = _judge_block(tree, node, block, target, random, witness)
                path += block[:length]
                node = block[length - 1] if length else node
                others = [child for child in tree.children(node) if child not in block]
            else:
                p, others = target.probabilities(node), tree.children(node)
            child, p = pick(tree, node, others, p, random, witness)
            if child is None:
                return tuple(path), draw_rest(tree, node, p, random, witness)
            path.append(child)
            node = child


def block_below(tree: TokenTree, node: int) -> list[int]:
    """Return the chain below a node in which each node is its parent's only drawn child."""
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
    """Return weights [tokens + 1] and chances [tokens] of a chain, given p and q [vocabulary] at
    the position of each token.

    weights  w_0 = 1, w_i = min(1, w_(i-1) p/q): the probability that at least i tokens are kept,
             given those i
    chances  the probability that the chain is cut after token i, unless it is cut later (arXiv
             2403.10444, algorithm 2)
    """
    weights = [1.0]
    for target_p, draft_q, token in zip(p, q, tokens, strict=True):
        weights.append(capped_ratio(weights[-1] * float(target_p[token]), float(draft_q[token])))
    chances = []
    for weight, target_p, draft_q in zip(weights[1:-1], p[1:], q[1:], strict=True):
        missing_mass = float(np.maximum(weight * target_p - draft_q, 0.0).sum())
        rest = missing_mass + 1.0 - weight
        chances.append(missing_mass / rest if rest > 0 else 1.0)
    return weights, [*chances, weights[-1]]


def _judge_block(
    tree: TokenTree,
    node: int,
    block: Sequence[int],
    target: Target,
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int, Probabilities]:
    """Return the number of accepted nodes of the block below `node`, and the remaining p.

    All random numbers belong to the block's first position: a later position may be judged again at
    the next step, and then needs other numbers.
    """
    parents = (node, *block[:-1])
    p = [target.probabilities(parent) for parent in parents]
    drawn_from = [tree.drawn_from(child) for child in block]
    q = [aligned(draft_q, len(p[0])) for draft_q in drawn_from if draft_q is not None]
    tokens = [tree.tokens[child] for child in block]
    weights, chances = block_chances(p, q, tokens)
    numbers = random.random(len(block))
    passed = [n for n, chance in enumerate(chances, 1) if numbers[n - 1] < chance]
    length = max(passed, default=0)
    if witness:
        trials = zip(parents, block, numbers, p, q, tokens, chances, strict=True)
        for n, (parent, child, u, target_p, draft_q, token, chance) in enumerate(trials):
            both = float(target_p[token]), float(draft_q[token])
            witness.judged(Judgement(parent, child, float(u), *both, chance, n < length, BLOCK))
    if length == len(block):
        return length, target.probabilities(block[-1])
    rest = np.maximum(weights[length] * p[length] - q[length], 0.0)
    total = rest.sum()
    return length, rest / total if total > 0 else p[length]
