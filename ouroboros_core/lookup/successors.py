"""Token recycling's matrix: for each token the target's most probable next tokens when it last
evaluated that token."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from ouroboros_core.lookup.memory import Memory

WIDEST = 64
MOST_ROWS = 2**18
"""Most candidates of a token, and most tokens with a row; no vocabulary is much larger."""


class Successors(Memory):
    """Up to `width` candidates after each token id, the likeliest first (Token Recycling, arXiv
    2408.08696, section 3.1).

    Only tokens that the target has evaluated have a row.
    """

    FORMAT = "ouroboros-successors"
    holds = "matrix of candidates"

    def __init__(self, width: int, fingerprint: str = "") -> None:
        super().__init__(fingerprint)
        self.width = width
        self._rows: dict[int, Sequence[int]] = {}
        self._recalled: set[int] = set()

    def __len__(self) -> int:
        """Return the number of tokens with a row."""
        return len(self._rows)

    def begin_run(self, width: int) -> None:
        """Mark every row as learned in an earlier run, and limit rows to `width` candidates."""
        self.runs += 1
        if width < self.width:
            self._rows = {token: row[:width] for token, row in self._rows.items()}
        self.width = width
        self._recalled = set(self._rows)

    def recalls(self, token: int) -> bool:
        """Return whether a token's row was learned in an earlier run."""
        return token in self._recalled

    def learn(self, token: int, candidates: Sequence[int]) -> None:
        self._rows[token] = candidates[: self.width]
        self._recalled.discard(token)
        if len(self._rows) > MOST_ROWS:
            del self._rows[next(iter(self._rows))]

    def after(self, token: int) -> Sequence[int]:
        return self._rows.get(token, ())

    def token_ids(self) -> Iterable[int]:
        return chain(self._rows, chain.from_iterable(self._rows.values()))

    def content(self) -> dict[str, Any]:
        return {"width": self.width, "rows": [[t, list(row)] for t, row in self._rows.items()]}

    @classmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        width = int(data["width"])
        if not 1 <= width <= WIDEST:
            raise ValueError(f"width must be between 1 and {WIDEST}, got {width}")
        memory = cls(width)
        for token, row in data["rows"]:
            memory.learn(int(token), [int(candidate) for candidate in row])
        return memory


def template(chances: Sequence[float], size: int, depth: int) -> list[tuple[int, int]]:
    """Return a static tree of `size` nodes: (rank, index of the parent, -1 for the root), parents
    first.

    chances: by rank, how often the target chooses the candidate of that rank. The tree has the
    nodes with the largest products of chances along their paths, which maximises the expected
    number of accepted tokens (Sequoia, arXiv 2402.12374, section 4.1, with chances independent of
    the depth).
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


def by_children(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return a static tree in the form of `template` from each node's number of children.

    Nodes are counted level by level from the root; nodes beyond the last count have no children.
    `by_children([2, 1])` has the ranks 0 and 1 below the root, and rank 0 below the first of them.
    """
    return [(rank, node - 1) for node, count in enumerate(counts) for rank in range(count)]


def grow(
    successors: Successors, root: int, shape: Iterable[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Return a template's tree as (token, parent's index, rank), without missing nodes."""
    grown: list[tuple[int, int, int]] = []
    index_of: dict[int, int] = {-1: -1}
    for index, (rank, parent) in enumerate(shape):
        if parent not in index_of:
            continue
        above = index_of[parent]
        candidates = successors.after(root if above < 0 else grown[above][0])
        if rank < len(candidates):
            index_of[index] = len(grown)
            grown.append((candidates[rank], above, rank))
    return grown
