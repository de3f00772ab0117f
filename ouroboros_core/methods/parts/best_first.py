"""Trees from marginals: the tree of a given size with the most right tokens on average (DDTree,
arXiv 2604.12989; OPT-Tree, arXiv 2406.17276).

One pass gives a list of tokens for each place. A path is one token of each list, and its chance is
the product. A path is never likelier than its beginning, so the likeliest paths form a tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import exp

from ouroboros_core.arrays import installed, np
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.sampling import process, softmax
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TreeBuilder

Ranks = tuple[int, ...]
"""A path from the root: for each place the number of its token in the list, from 0."""

LEAST = -700.0
"""A logarithm whose exponential is not 0."""

CANDIDATES = 64
"""Tokens among which noise decides."""

Marginals = list[list[tuple[int, float]]]
"""For each place, tokens and their chances, the likeliest first."""


def best_first(chances: Sequence[Sequence[float]], size: int) -> tuple[Ranks, ...]:
    """Return the paths of the best tree of `size` nodes without the root, or of fewer nodes if
    there are no more paths: the likeliest path first, of equal ones the smaller ranks.

    chances: for each place and rank, the chance that this token is right. Each path that is taken
    puts two others into the heap: the next rank of its place, and the first rank of the next place.
    """
    order = [sorted(range(len(row)), key=lambda rank: -row[rank]) for row in chances]
    waiting: list[tuple[float, Ranks, int, float]] = []
    chosen: list[Ranks] = []

    def wait(above: Ranks, index: int, chance: float) -> None:
        """Add the child with this index in the order of its place, below a path of a chance."""
        depth = len(above)
        if depth < len(chances) and index < len(order[depth]):
            rank = order[depth][index]
            path = (*above, rank)
            heapq.heappush(waiting, (-chance * chances[depth][rank], path, index, chance))

    wait((), 0, 1.0)
    while waiting and len(chosen) < size:
        cost, path, index, above = heapq.heappop(waiting)
        chosen.append(path)
        wait(path[:-1], index + 1, above)
        wait(path, 0, -cost)
    return tuple(chosen)


def likeliest(
    resources: Resources,
    evaluation: Evaluation,
    nodes: Sequence[int],
    positions: Sequence[int],
    count: int,
) -> Marginals:
    """Return up to `count` tokens after each of some nodes, with their chances to be the target's.

    Greedy, and for a rule that judges by probabilities, these are the drafter's probabilities. If
    sampling by `match`, the noise at a position has already decided which tokens are likely there:
    the chances are a softmax of scores plus noise, over the drafter's likeliest tokens. Without
    numpy there is no noise, and they are the drafter's probabilities, too.

    positions: text positions of the tokens
    """
    sampler = resources.sampler
    greedy = sampler.sampling.temperature == 0
    if greedy or sampler.rule.needs_probabilities or not installed():
        scored = evaluation.scored(nodes, count)
        return [[(token, exp(score)) for token, score in row if score > LEAST] for row in scored]
    rows = []
    scored = evaluation.scored(nodes, max(count, CANDIDATES))
    for row, position in zip(scored, positions, strict=True):
        tokens = np.array([token for token, _ in row])
        scores = process(np.array([score for _, score in row]), sampler.sampling)
        chances = softmax(scores + sampler.noise(position)[tokens])
        best = np.argsort(-chances, kind="stable")[:count].tolist()
        rows.append([(int(tokens[n]), float(chances[n])) for n in best if chances[n] > 0])
    return rows


def grow(
    builder: TreeBuilder,
    rows: Marginals,
    paths: Sequence[Ranks],
    evaluation: Evaluation,
    step: int,
    stop_tokens: frozenset[int],
) -> None:
    """Add the paths to a tree, with no node below a stop token; ranks without a token are left
    out."""
    builder.note_output(0, (evaluation, 0))
    numbers: dict[Ranks, int] = {(): 0}
    for path in paths:
        above, depth = numbers.get(path[:-1]), len(path) - 1
        if above is None or path[-1] >= len(rows[depth]):
            continue
        token, chance = rows[depth][path[-1]]
        origin = Provenance(Source.DRAFT, step=step, rank=path[-1], confidence=round(chance, 2))
        node = builder.add(token, above, origin)
        assert node is not None
        if token in stop_tokens:
            continue
        numbers[path] = node
        if len(path) < len(rows):
            builder.note_output(node, (evaluation, len(path)))
