"""The cost model: seconds of a forward pass by its rows, measured on this machine by `profiler`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from ouroboros_core.methods.base import Sizing

SHORT_CONTEXT, LONG_CONTEXT = 100, 700
"""Tokens of the contexts behind which passes are timed."""


LITTLE = 1.1
"""A number of rows is cheap if a pass over them takes at most this multiple of a pass over one
row."""


@dataclass(frozen=True)
class PassCosts:
    """Seconds of a model's pass, measured at some row counts (ascending, beginning with 1).

    seconds  behind a context of SHORT_CONTEXT tokens
    far      behind one of LONG_CONTEXT tokens; empty if that was not measured
    reading  seconds for every token of a prompt; 0 if that was not measured
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    far: tuple[float, ...] = ()
    reading: float = 0.0

    def of(self, rows: int, context: int = SHORT_CONTEXT) -> float:
        """Seconds of a pass over `rows` rows. Interpolates linearly between measured row counts and
        extrapolates beyond them; the context length is handled the same way."""
        short = self._line(self.seconds, rows)
        if not self.far:
            return short
        added = self._line(self.far, rows) - short
        return short + max(0.0, added * (context - SHORT_CONTEXT) / (LONG_CONTEXT - SHORT_CONTEXT))

    def part(self, share: float) -> PassCosts:
        """The costs of passes that read this share of the weights, taken to be in proportion to it:
        a pass over few rows takes as long as reading its weights."""
        seconds, far = (tuple(share * one for one in line) for line in (self.seconds, self.far))
        return PassCosts(self.rows, seconds, far, share * self.reading)

    @property
    def cheap_rows(self) -> int:
        """The largest measured row count whose pass takes at most LITTLE times a pass over one
        row."""
        return max(
            rows
            for rows, seconds in zip(self.rows, self.seconds, strict=True)
            if seconds <= LITTLE * self.seconds[0]
        )

    def _line(self, seconds: tuple[float, ...], rows: int) -> float:
        if rows <= self.rows[0] or len(self.rows) == 1:
            return seconds[0]
        upper = min(bisect_left(self.rows, rows), len(self.rows) - 1)
        low = self.rows[upper - 1]
        high = self.rows[upper]
        share = (rows - low) / (high - low)
        return seconds[upper - 1] + share * (seconds[upper] - seconds[upper - 1])


@dataclass(frozen=True)
class Costs:
    """Seconds of the passes of the target and, if present, of the draft model, the EAGLE head, and
    what else is trained for the target, by kind."""

    target: PassCosts
    draft: PassCosts | None = None
    head: PassCosts | None = None
    heads: Mapping[str, PassCosts] = field(default_factory=dict)

    @property
    def sizing(self) -> Sizing:
        """Which amounts are cheap on this machine, for a method that chooses them when it
        starts."""
        plain = self.target.of(1)
        if self.draft is None:
            return Sizing(self.target.cheap_rows)
        reading = (self.draft.reading / plain, self.target.reading / plain)
        return Sizing(self.target.cheap_rows, self.draft.cheap_rows, *reading)


TYPICAL = Costs(
    target=PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)),
    draft=PassCosts((1, 16, 64), (3.0, 3.4, 4.6)),
    head=PassCosts((1, 16, 64), (2.0, 2.3, 3.2)),
)
"""Used where nothing was measured: round numbers in the proportions of small models on a CPU."""
