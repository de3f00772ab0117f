"""The cost model: seconds of a forward pass by its rows, measured on this machine by `profiler`."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from ouroboros_core.methods.adjustable import Sizing

SHORT_CONTEXT, LONG_CONTEXT = 100, 700
"""Tokens of the contexts behind which passes are timed."""


LITTLE = 1.1
"""A number of rows is cheap if a pass over them takes at most this multiple of a pass over one
row."""

WINDOW = 1.25
"""The most that a pass may take because of a lookahead window, as such a multiple."""


@dataclass(frozen=True)
class PassCosts:
    """Seconds of a model's pass, measured at some row counts (ascending, beginning with 1).

    seconds  behind a context of SHORT_CONTEXT tokens
    far      behind one of LONG_CONTEXT tokens; empty if that was not measured
    reading  seconds for every token of a prompt; 0 if that was not measured
    behind   seconds more of a draft pass right behind the target's, which has driven the draft's
             weights out of the processor's caches; 0 if that was not measured
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    far: tuple[float, ...] = ()
    reading: float = 0.0
    behind: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for what nobody has measured."""
        many = len(self.rows)
        if not many or len(self.seconds) != many or len(self.far) not in (0, many):
            raise ValueError(
                f"{many} row counts, {len(self.seconds)} times behind a short context and "
                f"{len(self.far)} behind a long one do not belong together"
            )
        if not all(0 < one < math.inf for one in (*self.seconds, *self.far)):
            raise ValueError("seconds of a pass must be finite and above 0")
        for name, value in (("reading", self.reading), ("behind", self.behind)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, got {value}")

    def of(self, rows: float, context: int = SHORT_CONTEXT) -> float:
        """Seconds of a pass over `rows` rows. Interpolates linearly between measured row counts and
        extrapolates beyond them; the context length is handled the same way."""
        low, high, share = self._place(rows)
        short = _between(self.seconds[low], self.seconds[high], share)
        if not self.far:
            return short
        added = _between(self.far[low], self.far[high], share) - short
        return short + max(0.0, added * (context - SHORT_CONTEXT) / (LONG_CONTEXT - SHORT_CONTEXT))

    def drafting(self, passes: int, rows: float, context: int = SHORT_CONTEXT) -> float:
        """Seconds of a step's draft passes, over so many rows each."""
        return passes * self.of(rows, context) + (self.behind if passes else 0.0)

    def part(self, share: float) -> PassCosts:
        """The costs of passes that read this share of the weights, taken to be in proportion to it:
        a pass over few rows takes as long as reading its weights."""
        seconds, far = (tuple(share * one for one in line) for line in (self.seconds, self.far))
        return PassCosts(self.rows, seconds, far, share * self.reading, share * self.behind)

    def least(self, other: PassCosts) -> PassCosts:
        """The least of each time, of two measurements at the same row counts."""
        seconds, far = (
            tuple(map(min, mine, theirs))
            for mine, theirs in ((self.seconds, other.seconds), (self.far, other.far))
        )
        reading, behind = min(self.reading, other.reading), min(self.behind, other.behind)
        return PassCosts(self.rows, seconds, far, reading, behind)

    def rows_within(self, limit: float = LITTLE) -> int:
        """The most rows, as far as was measured, whose pass takes at most `limit` times a pass over
        one row."""
        most = limit * self.seconds[0]
        return max(rows for rows in range(1, self.rows[-1] + 1) if self.of(rows) <= most)

    def _place(self, rows: float) -> tuple[int, int, float]:
        """Between which two measured row counts it lies, and how far from the first."""
        last = len(self.rows) - 1
        if rows <= self.rows[0] or not last:
            return 0, 0, 0.0
        upper = min(bisect_left(self.rows, rows), last)
        low, high = self.rows[upper - 1], self.rows[upper]
        return upper - 1, upper, (rows - low) / (high - low)


def _between(low: float, high: float, share: float) -> float:
    return low + share * (high - low)


@dataclass(frozen=True)
class Costs:
    """Seconds of the passes of the target and, if present, of the draft model, the EAGLE head, and
    what else is trained for the target, by kind.

    spread  of the target's passes the largest median over its own least: over about 1.2 where
            something else kept the machine busy while they were timed
    tries   how often they were timed
    """

    target: PassCosts
    draft: PassCosts | None = None
    head: PassCosts | None = None
    heads: Mapping[str, PassCosts] = field(default_factory=dict)
    spread: float = 1.0
    tries: int = 1

    def least(self, other: Costs) -> Costs:
        """The least of each time, of two measurements of the same pair; the spread is that of the
        calmer one."""
        return Costs(
            self.target.least(other.target),
            _least(self.draft, other.draft),
            _least(self.head, other.head),
            {kind: cost.least(other.heads[kind]) for kind, cost in self.heads.items()},
            min(self.spread, other.spread),
            self.tries + other.tries,
        )

    @property
    def sizing(self) -> Sizing:
        """Which amounts are cheap on this machine, for a method that chooses them when it
        starts."""
        rows = self.target.rows_within(WINDOW)
        return Sizing(rows, self.draft.rows_within() if self.draft else 1)


def _least(one: PassCosts | None, other: PassCosts | None) -> PassCosts | None:
    return one.least(other) if one and other else None


TYPICAL = Costs(
    target=PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)),
    draft=PassCosts((1, 16, 64), (3.0, 3.4, 4.6)),
    head=PassCosts((1, 16, 64), (2.0, 2.3, 3.2)),
)
"""Used where nothing was measured: round numbers in the proportions of small models on a CPU."""
