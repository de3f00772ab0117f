"""How fast the passes are at present, beside what was measured when the pair was loaded.

A machine that others use computes at one pace now and at another a minute later, and a laptop slows
down when it is hot. Memory and arithmetic do so independently: a pass over one row waits for the
weights, and what more rows add is arithmetic. So a pass takes `memory` times what one row was
measured to take, and `arithmetic` times what more rows were measured to add. Both are estimated
from the latest passes, drawn to what was measured.
"""

from __future__ import annotations

from collections import defaultdict

from ouroboros_core.adaptive.cost_model import Costs

FADING, FADING_PLAIN = 0.985, 0.7
"""What a pass still counts for at the next one; what one over one row does at the next such."""

BELIEF_MEMORY, BELIEF_ARITHMETIC, BELIEF_DRAFTING = 0.2, 0.05, 3.0
"""How firmly the measured costs are believed: as firmly as if so many passes over one row had said
so, so many passes over rows that add as much as one, and so many steps that drafted."""

LEAST_SHARE = 0.05
"""More rows are taken to add at least this share of a pass over one row, so that a machine on which
they were measured to add nothing can still be found to be slower."""

FASTEST, SLOWEST = 0.2, 5.0

ASK_AGAIN = 64
"""After so many steps without a pass over one row, the next step is one."""


class Pace:
    """The present pace of one pair's passes. It belongs to the process, not to a run: what one run
    finds, the next one begins with. One that is not `live` stays at what was measured.

    memory      seconds of a pass over one row, over those measured
    arithmetic  the same of what more rows add
    """

    def __init__(self, costs: Costs, live: bool = False) -> None:
        self.live = live
        self._target = costs.target
        self._plain, self._since_plain = 0, 0
        self._ones = self._ones_taken = BELIEF_MEMORY
        self._squares, self._weighted = BELIEF_ARITHMETIC, 0.0
        self._drafting: defaultdict[str, tuple[float, float]] = defaultdict(
            lambda: (BELIEF_DRAFTING, BELIEF_DRAFTING)
        )
        self.memory = self.arithmetic = 1.0

    def of(self, rows: float, context: int) -> float:
        """Seconds of a pass of the target."""
        one = self._target.of(1, context)
        more = self._target.of(rows, context) - one
        slower = (self.arithmetic - 1) * max(more, LEAST_SHARE * one) if rows > 1 else 0.0
        return self.memory * one + more + slower

    @property
    def wants_plain(self) -> bool:
        """Whether nobody knows what plain decoding takes at present."""
        return self.live and (self._plain < 2 or self._since_plain > ASK_AGAIN)

    def note_pass(self, rows: int, context: int, seconds: float) -> None:
        """A pass of the target took so long."""
        if not self.live:
            return
        one = self._target.of(1, context)
        more = (self._target.of(rows, context) - one) / one
        taken = min(seconds, 2 * self.of(rows, context)) / one
        if rows == 1:
            self._plain, self._since_plain = self._plain + 1, 0
            fading = FADING_PLAIN if self._plain > 1 else 1.0
            self._ones = fading * self._ones + 1
            self._ones_taken = fading * self._ones_taken + taken
            self.memory = _within(self._ones_taken / self._ones)
        else:
            self._since_plain += 1
            # taken = memory + more + (arithmetic - 1) * weight, by least squares
            weight = max(more, LEAST_SHARE)
            self._squares = FADING * (self._squares - BELIEF_ARITHMETIC) + weight**2
            self._squares += BELIEF_ARITHMETIC
            self._weighted = FADING * self._weighted + weight * (taken - self.memory - more)
            self.arithmetic = _within(1 + self._weighted / self._squares)

    def drafting(self, method: str) -> float:
        """What proposing takes a method, over what its draft passes were measured to take."""
        taken, steps = self._drafting[method]
        return _within(taken / steps)

    def note_drafting(self, method: str, expected: float, seconds: float) -> None:
        """To propose took a method so long, of which draft passes were to take `expected`."""
        if not self.live:
            return
        latest = min(seconds / expected, 2 * self.drafting(method))
        taken, steps = (one - BELIEF_DRAFTING for one in self._drafting[method])
        self._drafting[method] = (
            FADING * taken + latest + BELIEF_DRAFTING,
            FADING * steps + 1 + BELIEF_DRAFTING,
        )


def _within(factor: float) -> float:
    return min(SLOWEST, max(FASTEST, factor))
