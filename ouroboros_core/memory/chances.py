"""How often is a proposed token what the target says, given that everything before it was? Measured, by where it comes from.

A node's kind is its source and what distinguishes better from worse there: the length of a match, the rank of a candidate, the
draft's own probability. Each kind begins with what was measured beforehand, and goes on with what this run shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ouroboros_core.tree import Provenance, Source, TokenTree

Kind = tuple[Source, int, bool]
"""A source, a grade within it, and whether another source agrees."""

AGREED = 0.3
"""By what share of its doubts another source's agreement lifts a chance beforehand (measured as below on 82 nodes: 0.37)."""

WEIGHT = 6.0
"""How many observations the measured prior counts for."""

MEMORY = 0.97
"""What an observation still counts for at the next one of its kind."""

MATCHES = (1, 2, 3, 4, 6, 9, 14)
"""Match lengths at which a new grade begins; behind them come three grades of runners-up, by rank."""

ANY = -1
"""In place of a grade: any."""

PRIORS: dict[Source, tuple[float, ...]] = {
    Source.DRAFT: (0.06, 0.18, 0.25, 0.38, 0.47, 0.52, 0.64, 0.78, 0.80, 0.93),
    Source.COPY: (0.20, 0.45, 0.65, 0.82, 0.90, 0.92, 0.92, 0.12, 0.15, 0.08),
    Source.CORPUS: (0.14, 0.17, 0.22, 0.28, 0.55, 0.55, 0.85, 0.14, 0.05, 0.02),
    Source.NGRAM: (0.20, 0.60, 0.60),
    Source.RECYCLED: (0.37, 0.10, 0.045, 0.040, 0.026, 0.017, 0.008, 0.006, 0.006, 0.006),
    Source.SUFFIX: (0.45, 0.22, 0.18, 0.09),
    Source.PHRASE: (0.45, 0.22, 0.18, 0.09),
}
"""Chances by grade: measured on 12 of the project's own prompts with `python -m ouroboros_core.benchmark.chances
--max-new-tokens 48`, rounded, and smoothed where a grade was met less than fifty times; those of phrases on 24,
whoever proposes them; those of n-grams taken lower, because texts that repeat nothing suffer most from a chance set too high."""


def kind_of(origin: Provenance, depth: int) -> Kind:
    """The kind of a node which lies `depth` below the root."""
    return origin.source, _grade(origin, depth), origin.also is not None


def _grade(origin: Provenance, depth: int) -> int:
    """Within a copy every token lengthens the match."""
    if origin.source is Source.DRAFT:
        return min(9, int(10 * (origin.confidence or 0.0)))
    if origin.source is Source.NGRAM:
        return min(origin.match or 1, 3) - 1
    if origin.match is not None:
        if origin.rank:
            return len(MATCHES) + min(origin.rank, 3) - 1
        length = origin.match + depth - 1
        return sum(length >= bound for bound in MATCHES[1:])
    return origin.rank or 0


class Chances:
    """Running estimates by kind, which begin at the priors."""

    def __init__(self) -> None:
        self._right: dict[Kind, float] = {}
        self._seen: dict[Kind, float] = {}
        self.doubts: dict[Source, float] = {}
        """What is left, beforehand, of a source's mean chance in this run; all of it where nothing is said."""

    def of(self, kind: Kind) -> float:
        """The chance of a node of this kind whose parent is accepted."""
        source, level, agreed = kind
        known = PRIORS.get(source, (0.1,))
        prior = known[min(level, len(known) - 1)] if level != ANY else sum(known) / len(known) * self.doubts.get(source, 1.0)
        prior += AGREED * (1 - prior) if agreed else 0.0
        return (self._right.get(kind, 0.0) + WEIGHT * prior) / (self._seen.get(kind, 0.0) + WEIGHT)

    def mean(self, source: Source) -> float:
        """The chance of a node of this source whose grade is not known yet."""
        return self.of((source, ANY, False))

    def note(self, kind: Kind, right: bool) -> None:
        self._right[kind] = MEMORY * self._right.get(kind, 0.0) + right
        self._seen[kind] = MEMORY * self._seen.get(kind, 0.0) + 1

    def along(self, tree: TokenTree) -> list[float]:
        """For each node of a tree the chance that its whole path is accepted; 1 for the root."""
        depths = tree.depths
        alone = [1.0] * len(tree)
        among = [0.0] * len(tree)
        for node in range(1, tree.proposals):
            origin = tree.provenance[node]
            alone[node] = self.of(kind_of(origin, depths[node]))
            among[tree.parents[node]] += alone[node]
        whole = [1.0] + [0.0] * (len(tree) - 1)
        for node in range(1, tree.proposals):
            above = tree.parents[node]
            # Of siblings one at most is right: where their chances add up to more than that, they share.
            whole[node] = whole[above] * alone[node] / max(1.0, among[above])
        return whole

    def learn(self, tree: TokenTree, path: Sequence[int]) -> None:
        """Every proposed child of the root and of the accepted nodes was tested."""
        accepted: AbstractSet[int] = {0, *path}
        depths = tree.depths
        for node in range(1, tree.proposals):
            if tree.parents[node] in accepted:
                origin = tree.provenance[node]
                for kind in (kind_of(origin, depths[node]), (origin.source, ANY, False)):
                    self.note(kind, node in accepted)
