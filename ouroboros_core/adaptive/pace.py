"""How fast passes are at present, beside what was measured when a pair was first loaded.

A machine that others use computes at one pace now and at another a minute later, and a laptop slows
down when it is hot. Memory and arithmetic do so independently: a pass over one row waits for the
weights, and what more rows add is arithmetic. So a pass takes `memory` times what one row was
measured to take, and `arithmetic` times what more rows were measured to add. Both are estimated
from the latest passes, those of plain decoding among them. A run decides by the rates at which it
began, so that it can be repeated step by step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ouroboros_core.adaptive.cost_model import SHORT_CONTEXT, Costs
from ouroboros_core.adaptive.profiler import as_new, pass_seconds
from ouroboros_core.interfaces import LanguageModel

FADING = 0.985
"""What a pass counts for when the next one of its kind has run."""

BELIEF_MEMORY, BELIEF_ARITHMETIC, BELIEF_DRAFTING = 1.0, 0.05, 3.0
"""How firmly what was measured is believed: like so many passes over one row, passes over rows that
add as much as one, and steps that draft."""

LEAST_SHARE = 0.05
"""Passes whose rows add less than this share of a pass over one row tell nothing of arithmetic."""

FASTEST, SLOWEST = 0.2, 5.0

LOOK_ROWS, LOOKS, LOOK_SECONDS = (1, 8), 4, 1.0
"""Rows of the passes of a look, rounds that count, and the seconds beyond which there is none."""


@dataclass(frozen=True)
class Rates:
    """What passes take, over what was measured.

    memory      of a pass over one row
    arithmetic  of what more rows add
    drafting    of draft passes, with what a method does besides only where it drafts
    """

    memory: float = 1.0
    arithmetic: float = 1.0
    drafting: float = 1.0


class Pace:
    """The rates of one pair in this process: what one run finds, the next one begins with."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._ones = self._ones_taken = 0.0
        # Of passes over more rows: what these were measured to add, as a share of one row's pass;
        # its squares; its products with what was taken beyond it.
        self._weights = self._squares = self._weighted = 0.0
        self._drafting: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))

    def look(self, target: LanguageModel) -> None:
        """Time a few passes, where that does not take long."""
        if (1 + LOOKS) * sum(map(self.costs.target.of, LOOK_ROWS)) > LOOK_SECONDS:
            return
        taken = pass_seconds([(target, rows) for rows in LOOK_ROWS], LOOKS)
        for rows, seconds in zip(LOOK_ROWS, taken, strict=True):
            for _ in range(LOOKS):
                self.note_pass(rows, SHORT_CONTEXT, seconds)
        as_new(target)

    def rates(self, method: str) -> Rates:
        """As far as is known: a method that has not drafted yet drafts as fast as was measured, and
        as memory allows; without a pass over one row nothing is known."""
        if not self._ones:
            return Rates()
        memory = (self._ones_taken + BELIEF_MEMORY) / (self._ones + BELIEF_MEMORY)
        squares = self._squares + BELIEF_ARITHMETIC
        arithmetic = 1 + (self._weighted - memory * self._weights) / squares
        taken, steps = self._drafting[method]
        drafting = (taken + BELIEF_DRAFTING * memory) / (steps + BELIEF_DRAFTING)
        return Rates(*(min(SLOWEST, max(FASTEST, one)) for one in (memory, arithmetic, drafting)))

    def note_pass(self, rows: int, context: int, seconds: float) -> None:
        """A pass of the target took so long; one that something interrupted counts as twice as long
        as expected."""
        costs, known = self.costs.target, self.rates("")
        if rows > costs.rows[-1]:
            return
        one = costs.of(1, context)
        more = costs.of(rows, context) / one - 1
        taken = min(seconds / one, 2 * (known.memory + known.arithmetic * more))
        if rows == 1:
            self._ones = FADING * self._ones + 1
            self._ones_taken = FADING * self._ones_taken + taken
        elif more >= LEAST_SHARE:
            self._weights = FADING * self._weights + more
            self._squares = FADING * self._squares + more**2
            self._weighted = FADING * self._weighted + more * (taken - more)

    def note_drafting(self, method: str, expected: float, seconds: float) -> None:
        """To propose took a method so long, of which draft passes were measured to take
        `expected`."""
        taken, steps = self._drafting[method]
        latest = min(seconds / expected, 2 * self.rates(method).drafting)
        self._drafting[method] = FADING * taken + latest, FADING * steps + 1
