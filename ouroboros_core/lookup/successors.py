"""Token recycling's matrix: for each token the target's most probable next tokens when it last
evaluated that token."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence


class Successors:
    """Up to `width` candidates after each token id, the likeliest first (Token Recycling, arXiv
    2408.08696, section 3.1).

    Only tokens behind which the target was asked have a row.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: dict[int, Sequence[int]] = {}

    def __len__(self) -> int:
        """Tokens with a row."""
        return len(self._rows)

    def learn(self, token: int, candidates: Sequence[int]) -> None:
        """Replace the candidates of a token."""
        self._rows[token] = candidates[: self.width]

    def after(self, token: int) -> Sequence[int]:
        return self._rows.get(token, ())


def template(chances: Sequence[float], size: int, depth: int) -> list[tuple[int, int]]:
    """A static tree of `size` nodes: (rank, index of the parent, -1 for the root), parents first.

    chances: how often the target's choice is the candidate of each rank. The nodes kept are those
    of the largest product of chances along their path, which is what a tree of that size can be
    expected to win most with (Sequoia, arXiv 2402.12374, section 4.1, with the chance independent
    of the depth).
    """
    chosen: list[tuple[int, int]] = []
    waiting: list[tuple[float, int, int, int]] = [
        (-chance, 1, rank, -1) for rank, chance in enumerate(chances)
    ]
    heapq.heapify(waiting)
    while waiting and len(chosen) < size:
        value, level, rank, parent = heapq.heappop(waiting)
        chosen.append((rank, parent))
        if level < depth:
            for further, chance in enumerate(chances):
                heapq.heappush(waiting, (value * chance, level + 1, further, len(chosen) - 1))
    return chosen


def grow(
    known: Successors, root: int, shape: Iterable[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """The tree that a template has below a token: (token, index of the parent, rank), where
    candidates are known."""
    grown: list[tuple[int, int, int]] = []
    index_of: dict[int, int] = {-1: -1}
    for index, (rank, parent) in enumerate(shape):
        if parent not in index_of:
            continue
        above = index_of[parent]
        candidates = known.after(root if above < 0 else grown[above][0])
        if rank < len(candidates):
            index_of[index] = len(grown)
            grown.append((candidates[rank], above, rank))
    return grown
