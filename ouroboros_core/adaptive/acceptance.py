"""Running estimates of one run, by source, of how often the target accepts a token.

An estimate begins with `Provenance.prior`: round numbers for every pair of models, from the draft's
probability, the length of a match or the rank among candidates. The run corrects it by one factor
for each source: accepted tokens over expected tokens. Evidence fades with every step. So an
estimate follows the text, and an abandoned source is tried again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree

MEMORY = 0.97
"""Weight of a step's evidence at the next step."""

WEIGHT = 1.0
"""Weight of the prior, in accepted tokens."""

HIT, HIT_WEIGHT = 0.75, 2.0
"""Prior probability that one of a draft's tokens is accepted, and its weight in steps. It is high
on purpose: a draft that does not run yields no evidence."""

HIGHEST_CHANCE = 0.98


class Acceptance:
    """The estimates of one run."""

    def __init__(self) -> None:
        self._accepted: defaultdict[Source, float] = defaultdict(float)
        self._expected: defaultdict[Source, float] = defaultdict(float)
        self._hits = self._asked = 0.0

    def factor(self, source: Source) -> float:
        """Return the ratio of a source's acceptance to its priors."""
        return (self._accepted[source] + WEIGHT) / (self._expected[source] + WEIGHT)

    @property
    def hit(self) -> float:
        """The probability that one of a draft's tokens is accepted after an accepted node."""
        return (self._hits + HIT_WEIGHT * HIT) / (self._asked + HIT_WEIGHT)

    def node_chances(self, tree: TokenTree) -> list[float]:
        """Return for each node the probability that it is accepted if its parent is. A node of
        several sources is accepted if at least one of them is right."""
        factors = {source: self.factor(source) for source in Source}
        chances = [1.0] * len(tree)
        for node in tree.proposals:
            depth, wrong = tree.depths[node], 1.0
            for origin in _first_origins(tree, node):
                wrong *= 1.0 - min(HIGHEST_CHANCE, origin.prior(depth) * factors[origin.source])
            chances[node] -= wrong
        return chances

    def path_chances(self, tree: TokenTree) -> list[float]:
        """Return the probability of each whole path: 1 for the root, 0 for window nodes."""
        chances = self.node_chances(tree)
        sum_of_children = [0.0] * len(tree)
        for node in tree.proposals:
            sum_of_children[tree.parents[node]] += chances[node]
        path_chances = [1.0] + [0.0] * (len(tree) - 1)
        for node in tree.proposals:
            parent = tree.parents[node]
            # At most one sibling is right: scale down probabilities with a sum above 1.
            chance = chances[node] / max(1.0, sum_of_children[parent])
            path_chances[node] = path_chances[parent] * chance
        return path_chances

    def learn(
        self, tree: TokenTree, path: Sequence[int], checked: Collection[int] | None = None
    ) -> None:
        """Record a step, which tested every child of the root and of the nodes on the accepted
        `path`.

        tree     proposal
        checked  nodes of the proposal that the target judged; None for all
        """
        for counts in (self._accepted, self._expected):
            for source in counts:
                counts[source] *= MEMORY
        tested = _tested(tree, path)
        for node in tested if checked is None else set(tested).intersection(checked):
            for origin in _first_origins(tree, node):
                self._expected[origin.source] += origin.prior(tree.depths[node])
                self._accepted[origin.source] += node in path
        # A drafted token that was not checked also cost a draft pass, and yielded nothing.
        drafted = [
            node
            for node in tested
            if any(origin.source is Source.DRAFT for origin in tree.origins(node))
        ]
        self._asked = MEMORY * self._asked + len({tree.parents[node] for node in drafted})
        self._hits = MEMORY * self._hits + sum(node in path for node in drafted)


def _tested(tree: TokenTree, path: Sequence[int]) -> list[int]:
    """Return the children of the root and of the nodes on the path."""
    accepted = {0, *path}
    return [node for node in tree.proposals if tree.parents[node] in accepted]


def _first_origins(tree: TokenTree, node: int) -> Iterable[Provenance]:
    """Return a node's first origin of each source."""
    origins = tree.origins(node)
    if len(origins) == 1:
        return origins
    return {origin.source: origin for origin in reversed(origins)}.values()
