"""The cost model: seconds of a forward pass by its rows, measured on this machine by `profiler`."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ouroboros_core.methods.adjustable import Sizing

Counts = npt.NDArray[np.integer]

SHORT_CONTEXT, LONG_CONTEXT = 100, 700
"""Tokens of the contexts behind which passes are timed."""

LITTLE = 1.1
"""The most that a pass over a cheap number of rows takes, as a multiple of a pass over one row."""


@dataclass(frozen=True)
class PassCosts:
    """Seconds of a model's pass, measured at some row counts, ascending; fewer take as long as the
    first.

    seconds  behind a context of SHORT_CONTEXT tokens
    far      behind one of LONG_CONTEXT tokens; empty if that was not measured
    reading  seconds for every token of a prompt; 0 if that was not measured
    behind   seconds more of a step's first draft pass, right behind the target's: that has driven
             the draft's weights out of the processor's caches, and a head reads the new tokens.
             The same behind every context; 0 if that was not measured
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    far: tuple[float, ...] = ()
    reading: float = 0.0
    behind: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for what nobody has measured."""
        many, each = len(self.rows), (*self.seconds, *self.far)
        if not many or len(self.seconds) != many or len(self.far) not in (0, many):
            raise ValueError(f"each row count has its seconds, and there is one at least: {self}")
        if not all(0 < one < math.inf for one in each):
            raise ValueError(f"seconds of a pass must be finite and above 0: {self}")
        if not all(0 <= one < math.inf for one in (self.reading, self.behind)):
            raise ValueError(f"reading and behind must be finite and at least 0: {self}")

    def of(self, rows: float, context: int = SHORT_CONTEXT) -> float:
        """Seconds of a pass over `rows` rows. Interpolates linearly between measured row counts and
        extrapolates beyond them; the context length is handled the same way."""
        short, long = self._lines(rows)
        return short + max(0.0, _further(context) * (long - short))

    def each(self, rows: Counts, context: int = SHORT_CONTEXT) -> npt.NDArray[np.float64]:
        """The same of many row counts at once."""
        ends = [*self.rows, max(self.rows[-1] + 1, int(rows.max()))]
        lines = zip(*map(self._lines, ends), strict=True)
        short, long = (np.interp(rows, ends, line) for line in lines)
        seconds: npt.NDArray[np.float64] = short + np.maximum(
            0.0, _further(context) * (long - short)
        )
        return seconds

    def _lines(self, rows: float) -> tuple[float, float]:
        """Seconds behind the short and the long context."""
        # Of a single row count, it and the one before it, at -1, are the same.
        at = min(max(1, bisect_left(self.rows, rows)), len(self.rows) - 1)
        share = max(0.0, rows - self.rows[at - 1]) / (self.rows[at] - self.rows[at - 1] or 1)
        near, far = self.seconds, self.far or self.seconds
        short, long = (line[at - 1] + share * (line[at] - line[at - 1]) for line in (near, far))
        return short, long

    def drafting(self, passes: int, rows: float, context: int = SHORT_CONTEXT) -> float:
        """Seconds of a step's draft passes, over so many rows each."""
        return passes * self.of(rows, context) + (self.behind if passes else 0.0)

    def part(self, share: float) -> PassCosts:
        """The costs of passes that read this share of the weights, taken to be in proportion to it:
        a pass over few rows takes as long as reading its weights."""
        seconds, far = (tuple(share * one for one in line) for line in (self.seconds, self.far))
        return PassCosts(self.rows, seconds, far, share * self.reading, share * self.behind)

    @property
    def cheap_rows(self) -> int:
        """The most rows, as far as was measured, whose pass takes at most LITTLE times a pass over
        one row."""
        most = LITTLE * self.seconds[0]
        return max(rows for rows in range(1, self.rows[-1] + 1) if self.of(rows) <= most)


def _further(context: int) -> float:
    """How far a context lies on the way from the short to the long one."""
    return (context - SHORT_CONTEXT) / (LONG_CONTEXT - SHORT_CONTEXT)


@dataclass(frozen=True)
class Costs:
    """Seconds of the passes of the target and, if present, of the draft model, the EAGLE head, and
    what else is trained for the target, by kind."""

    target: PassCosts
    draft: PassCosts | None = None
    head: PassCosts | None = None
    heads: Mapping[str, PassCosts] = field(default_factory=dict)

    def of(self, kind: str) -> PassCosts:
        """Those of one model: target, draft, head, or a kind of `heads`; raises KeyError where
        there is none."""
        known = {"target": self.target, "draft": self.draft, "head": self.head, **self.heads}
        found = known[kind]
        if found is None:
            raise KeyError(kind)
        return found

    @property
    def sizing(self) -> Sizing:
        """Which amounts are cheap on this machine, for a method that chooses them when it
        starts."""
        return Sizing(self.target.cheap_rows, self.draft.cheap_rows if self.draft else 1)


TYPICAL = Costs(
    target=PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)),
    draft=PassCosts((1, 16, 64), (3.0, 3.4, 4.6)),
    head=PassCosts((1, 16, 64), (2.0, 2.3, 3.2)),
)
"""Used where nothing was measured: round numbers in the proportions of small models on a CPU."""
