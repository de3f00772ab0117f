"""How often does the target agree? Running estimates of one run, by who proposed a token.

An estimate begins at what is known of every pair of models: `Provenance.prior`, round numbers by a
draft's own probability, the length of a match or the rank among candidates. What the run shows
corrects it by one factor for each source: tokens accepted over tokens expected. Evidence fades with
every step, so that an estimate follows the text, and a source that was given up is tried again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree

MEMORY = 0.97
"""What the evidence of a step still counts for at the next one."""

WEIGHT = 1.0
"""Accepted tokens that the prior counts for."""

HIT, HIT_WEIGHT = 0.75, 2.0
"""How often one of a draft's tokens is accepted where it is asked, as long as nothing is known, and
the steps that counts for. Hopeful on purpose: a draft that is not asked can teach nothing."""

SUREST = 0.98


class Acceptance:
    """One run's estimates."""

    def __init__(self) -> None:
        self._accepted: defaultdict[Source, float] = defaultdict(float)
        self._expected: defaultdict[Source, float] = defaultdict(float)
        self._hits = self._asked = 0.0

    def factor(self, source: Source) -> float:
        """How much more, or less, a source's tokens are accepted than their priors say."""
        return (self._accepted[source] + WEIGHT) / (self._expected[source] + WEIGHT)

    @property
    def hit(self) -> float:
        """The probability that one of a draft's tokens is accepted behind a node that is."""
        return (self._hits + HIT_WEIGHT * HIT) / (self._asked + HIT_WEIGHT)

    def node_chances(self, tree: TokenTree) -> list[float]:
        """For each node the probability that it is accepted if its parent is; of several who agree,
        that one is right."""
        factors = {source: self.factor(source) for source in Source}
        found = [1.0] * len(tree)
        for node in tree.proposals:
            depth, wrong = tree.depths[node], 1.0
            for one in _one_each(tree, node):
                wrong *= 1.0 - min(SUREST, one.prior(depth) * factors[one.source])
            found[node] -= wrong
        return found

    def path_chances(self, tree: TokenTree) -> list[float]:
        """For each node the probability that its whole path is accepted; 1 for the root, 0 in the
        window."""
        chances = self.node_chances(tree)
        among = [0.0] * len(tree)
        for node in tree.proposals:
            among[tree.parents[node]] += chances[node]
        whole = [1.0] + [0.0] * (len(tree) - 1)
        for node in tree.proposals:
            above = tree.parents[node]
            # Of siblings one at most is right: where their probabilities add up to more than that,
            # they share.
            whole[node] = whole[above] * chances[node] / max(1.0, among[above])
        return whole

    def learn(
        self, tree: TokenTree, path: Sequence[int], checked: Collection[int] | None = None
    ) -> None:
        """Take note of a step: every child of the root and of the nodes on the accepted `path` was
        tested.

        tree     what was proposed
        checked  its nodes that the target has judged; None: all
        """
        for counts in (self._accepted, self._expected):
            for source in counts:
                counts[source] *= MEMORY
        tested = _tested(tree, path)
        for node in tested if checked is None else set(tested).intersection(checked):
            for origin in _one_each(tree, node):
                self._expected[origin.source] += origin.prior(tree.depths[node])
                self._accepted[origin.source] += node in path
        # A drafted token that was not worth checking cost a draft pass, too, and gave nothing.
        drafted = [
            node for node in tested if any(one.source is Source.DRAFT for one in tree.origins(node))
        ]
        self._asked = MEMORY * self._asked + len({tree.parents[node] for node in drafted})
        self._hits = MEMORY * self._hits + sum(node in path for node in drafted)


def _tested(tree: TokenTree, path: Sequence[int]) -> list[int]:
    """The children of the root and of the nodes on the path."""
    accepted = {0, *path}
    return [node for node in tree.proposals if tree.parents[node] in accepted]


def _one_each(tree: TokenTree, node: int) -> Iterable[Provenance]:
    """A node's origins, of each source the first."""
    origins = tree.origins(node)
    if len(origins) == 1:
        return origins
    return {one.source: one for one in reversed(origins)}.values()
