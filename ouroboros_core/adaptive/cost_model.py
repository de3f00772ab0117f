"""The cost model: seconds of a forward pass by its rows, measured on this machine by `profiler`."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from ouroboros_core.methods.parts.base import Sizing

CONTEXT = 400
"""Tokens of the context of timed passes."""

CHEAP = 1.1
"""Longest pass over a cheap number of rows, as a multiple of a pass over one row."""


@dataclass(frozen=True)
class PassCosts:
    """Seconds of a pass at ascending row counts; fewer rows take as long as the first count."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if the costs cannot be measured ones."""
        if not self.rows or len(self.seconds) != len(self.rows):
            raise ValueError(f"each row count has its seconds, and there is one at least: {self}")
        if sorted({*self.rows}) != [*self.rows]:
            raise ValueError(f"row counts must ascend: {self}")
        if not all(0 < seconds < math.inf for seconds in self.seconds):
            raise ValueError(f"seconds of a pass must be finite and above 0: {self}")

    def of(self, rows: float) -> float:
        """Return the seconds of a pass, linear between and beyond the measured row counts."""
        if len(self.rows) == 1 or rows <= self.rows[0]:
            return self.seconds[0]
        at = min(bisect_left(self.rows, rows), len(self.rows) - 1)
        (before, after), (low, high) = self.rows[at - 1 : at + 1], self.seconds[at - 1 : at + 1]
        return low + (high - low) * (rows - before) / (after - before)

    def scaled(self, share: float) -> PassCosts:
        """Return the costs of passes that read this share of the weights, in proportion to it: a
        pass over few rows takes as long as reading its weights."""
        return PassCosts(self.rows, tuple(share * seconds for seconds in self.seconds))

    @property
    def cheap_rows(self) -> int:
        """The most measured rows whose pass takes at most CHEAP passes over one row."""
        limit = CHEAP * self.seconds[0]
        return max(rows for rows in range(1, self.rows[-1] + 1) if self.of(rows) <= limit)


@dataclass(frozen=True)
class Costs:
    """Costs of the passes of the target, the draft model and the heads, by kind of head."""

    target: PassCosts
    draft: PassCosts | None = None
    heads: Mapping[str, PassCosts] = field(default_factory=dict)

    @property
    def by_kind(self) -> dict[str, PassCosts]:
        """Return all costs, under `target`, `draft` and the kinds of head."""
        models = {"target": self.target, "draft": self.draft, **self.heads}
        return {kind: costs for kind, costs in models.items() if costs}

    def of_head(self, kind: str) -> PassCosts | None:
        """Return the costs of a head, of another head if this kind was not timed, or None."""
        return self.heads.get(kind) or next(iter(self.heads.values()), None)

    @property
    def sizing(self) -> Sizing:
        """The amounts that are cheap here, for a method that chooses them at its start."""
        return Sizing(self.target.cheap_rows, self.draft.cheap_rows if self.draft else 1)


TYPICAL = Costs(
    target=PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)),
    draft=PassCosts((1, 16, 64), (3.0, 3.4, 4.6)),
    heads={"eagle3": PassCosts((1, 16, 64), (2.0, 2.3, 3.2))},
)
"""Costs without a measurement: round numbers in the proportions of small models on a CPU."""
