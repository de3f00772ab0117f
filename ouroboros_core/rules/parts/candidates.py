"""Trials of the candidates after one node, for rules that compare p with q."""

from __future__ import annotations

from collections.abc import Sequence

from ouroboros_core.arrays import np
from ouroboros_core.rules.parts.base import Judgement, Witness
from ouroboros_core.tree import Probabilities, TokenTree

K_SEQ = "k-seq"
"""Name of the test of several independent draws from one q."""


def explain_draw(token: str, u: float, chance: float, accepted: bool) -> str:
    """Return the words for the trial of one of several independent draws."""
    sign = "<" if accepted else "≥"
    return (
        f"one of several independent draws, {token} is kept with chance min(1, p/(ρq)): "
        f"u = {u:.3g} {sign} {chance:.3g}"
    )


def pick(
    tree: TokenTree,
    node: int,
    candidates: Sequence[int],
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int | None, Probabilities]:
    """Return the accepted child of a node, or None, and the remaining p."""
    draws = tree.draws(node)
    if len(draws) > 1:
        child, p = _judge_draws(tree, node, draws, p, random, witness)
        if child is not None:
            return child, p
        candidates = [child for child in candidates if child not in draws]
    for child in candidates:
        token, q = tree.tokens[child], tree.drawn_from(child)
        u, draft_chance = random.random(), None if q is None else float(q[token])
        divisor, target_chance = 1.0 if draft_chance is None else draft_chance, float(p[token])
        accepted = u * divisor < target_chance
        if witness:
            chance = capped_ratio(target_chance, divisor)
            trial = Judgement(node, child, u, target_chance, draft_chance, chance, accepted)
            witness.judged(trial)
        if accepted:
            return child, p
        p = residual(p, token, q)
    return None, p


def capped_ratio(p: float, q: float) -> float:
    """Return min(1, p / q); 1 if q is 0."""
    return min(1.0, p / q) if q > 0 else 1.0


def residual(p: Probabilities, token: int, q: Probabilities | None) -> Probabilities:
    """Return norm(max(0, p - q)) after a rejected candidate; p if rounding leaves no mass.

    q  None if the candidate was not drawn: all its mass is on `token`
    """
    rest = p.copy()
    if q is None:
        rest[token] = 0.0
    else:
        rest[: len(q)] = np.maximum(rest[: len(q)] - q[: len(rest)], 0.0)
    total = rest.sum()
    return rest / total if total > 0 else p


def aligned(q: Probabilities, size: int) -> Probabilities:
    """Return q over a vocabulary of `size` tokens; tokens beyond the draft's vocabulary have 0."""
    return q[:size] if len(q) >= size else np.concatenate([q, np.zeros(size - len(q))])


BISECTIONS = 40
"""Enough steps for rho to be exact to one part in a trillion."""


def k_seq_rho(p: Probabilities, q: Probabilities, draws: int) -> float:
    """Return the smallest factor rho, between 1 and `draws`, with which K-SEQ keeps p [vocabulary].

    With beta(rho) = sum min(q, p/rho), the probability that one draw is accepted, rho is the root
    of 1 - (1 - beta)^draws = rho beta (arXiv 2310.15141, K-SEQ). Bisection finds it: the right side
    rises with rho, and the left side falls.
    """
    low, high = 1.0, float(draws)
    for _ in range(BISECTIONS):
        rho = (low + high) / 2
        beta = min(1.0, float(np.minimum(q, p / rho).sum()))
        low, high = (low, rho) if rho * beta >= 1 - (1 - beta) ** draws else (rho, high)
    return high


def k_seq_residual(p: Probabilities, q: Probabilities, draws: int, rho: float) -> Probabilities:
    """Return the remaining p after K-SEQ has rejected all of `draws` candidates; p if rounding
    leaves no mass."""
    common = np.minimum(q, p / rho)
    beta = min(1.0, float(common.sum()))
    if beta == 0:
        return p
    rest = np.maximum(p - common * ((1 - (1 - beta) ** draws) / beta), 0.0)
    total = rest.sum()
    return rest / total if total > 0 else p


def _judge_draws(
    tree: TokenTree,
    node: int,
    draws: Sequence[int],
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> tuple[int | None, Probabilities]:
    """Judge independent draws from one q in their order by K-SEQ (arXiv 2310.15141): each is
    accepted with probability min(1, p / (rho q)). Return the accepted child, or None, and the
    remaining p."""
    drawn_from = tree.drawn_from(draws[0])
    assert drawn_from is not None
    q = aligned(drawn_from, len(p))
    rho = k_seq_rho(p, q, len(draws))
    for child in draws:
        u, token = random.random(), tree.tokens[child]
        target_chance, draft_chance = float(p[token]), float(q[token])
        accepted = u * rho * draft_chance < target_chance
        if witness:
            chance = capped_ratio(target_chance, rho * draft_chance)
            trial = Judgement(node, child, u, target_chance, draft_chance, chance, accepted, K_SEQ)
            witness.judged(trial)
        if accepted:
            return child, p
    return None, k_seq_residual(p, q, len(draws), rho)


def draw_rest(
    tree: TokenTree,
    node: int,
    p: Probabilities,
    random: np.random.Generator,
    witness: Witness | None,
) -> int:
    """Draw the target token after a node from the remaining p."""
    if witness and tree.children(node):
        witness.left(node, p)
    mass = np.cumsum(p)
    return int(np.searchsorted(mass, random.random() * mass[-1], side="right"))
