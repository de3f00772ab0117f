"""What passes cost on this machine, and what is worth its time at the rate at which tokens come.

Decoding is a fraction to be maximised: tokens over seconds. At the best rate there is, every part of a step stands for itself: it
is worth having exactly if the tokens it can be expected to add exceed that rate times the seconds it takes (Dinkelbach 1967, "On
nonlinear fractional programming"). So one number, the rate, prices everything that a method may choose: another draft pass, a
wider tree, nothing at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

NEAR, FAR = 100, 700
"""Tokens of the contexts behind which passes are timed."""


@dataclass(frozen=True)
class PassCosts:
    """Seconds of a model's pass, measured at some row counts (ascending, beginning with 1).

    seconds  behind a context of NEAR tokens
    far      behind one of FAR tokens; empty where that was not measured
    reading  seconds for every token of a prompt; 0 where that was not measured
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    far: tuple[float, ...] = ()
    reading: float = 0.0

    def of(self, rows: int, context: int = NEAR) -> float:
        """Seconds of a pass over so many rows: on a straight line between those measured, beyond them on the last line; and
        likewise for the context."""
        near = self._line(self.seconds, rows)
        if not self.far:
            return near
        return near + max(0.0, (self._line(self.far, rows) - near) * (context - NEAR) / (FAR - NEAR))

    def _line(self, seconds: tuple[float, ...], rows: int) -> float:
        if rows <= self.rows[0] or len(self.rows) == 1:
            return seconds[0]
        upper = min(bisect_left(self.rows, rows), len(self.rows) - 1)
        low, high = self.rows[upper - 1], self.rows[upper]
        share = (rows - low) / (high - low)
        return seconds[upper - 1] + share * (seconds[upper] - seconds[upper - 1])


@dataclass(frozen=True)
class Costs:
    """Seconds of passes: of the target, and of a draft model and an EAGLE head where there are any."""

    target: PassCosts
    draft: PassCosts | None = None
    head: PassCosts | None = None


TYPICAL = Costs(
    target=PassCosts((1, 8, 16, 32, 64), (20.0, 22.0, 24.0, 28.0, 36.0)),
    draft=PassCosts((1, 16, 64), (3.0, 3.4, 4.6)),
    head=PassCosts((1, 16, 64), (2.0, 2.3, 3.2)),
)
"""Where nothing was measured: round numbers, in the proportions of small models on a CPU."""


Reason = Literal["worth it", "plain is faster", "nothing proposed", "trial", "fixed"]


@dataclass(frozen=True)
class Choice:
    """What a method chose by itself in a step, and why.

    offered   nodes there were to choose from, without the root
    size      nodes that were checked
    expected  tokens the step was expected to emit
    rate      tokens per second that its time was priced at
    reason    'worth it': these nodes add more tokens than their time costs; 'plain is faster': none does; 'nothing proposed';
              'fixed': the number of nodes was not to be chosen; 'trial': checked because nothing was for a while, worth it or
              not, to learn whether that still holds
    window    columns of the lookahead window; None for a method without one
    """

    offered: int
    size: int
    expected: float
    rate: float
    reason: Reason
    window: int | None = None


PRIOR_STEPS = 8
"""Weight of plain decoding's rate, in steps, before a run has a rate of its own."""

MARGIN = 0.05
"""Tokens that a tree must promise beyond its price."""

BEHIND = 0.97
"""A run below this share of plain decoding's rate is losing."""

TRIAL = 16
"""After so many plain steps in a row what is offered is tried again."""


class Pace:
    """The rate of a run so far, and what is worth its time at that rate. Seconds are those of `costs`, never a clock's, so that
    equal runs choose alike.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.context = NEAR
        """Tokens of the text so far."""
        self._tokens = float(PRIOR_STEPS)
        self._seconds = PRIOR_STEPS * costs.target.of(1)
        self._plain_steps = 0

    @property
    def plain(self) -> float:
        """Seconds of a plain step."""
        return self.costs.target.of(1, self.context)

    @property
    def rate(self) -> float:
        """Tokens per second: never below plain decoding's, which is always to be had."""
        return max(self._tokens / self._seconds, 1 / self.plain)

    @property
    def behind(self) -> bool:
        """Whether the steps so far took longer than plain decoding would have for the same tokens."""
        return self._tokens / self._seconds < BEHIND / self.plain

    def note(self, tokens: int, rows: int, drafting: float) -> None:
        """A step emitted `tokens` after a target pass over `rows` rows and `drafting` seconds before it."""
        self._tokens += tokens
        self._seconds += self.costs.target.of(rows, self.context) + drafting
        self._plain_steps = self._plain_steps + 1 if rows == 1 else 0

    @property
    def on_trial(self) -> bool:
        """Whether it is time to try once more what has seemed too dear."""
        return self._plain_steps >= TRIAL

    def worth(self, gain: float, seconds: float) -> bool:
        """Whether `gain` tokens, as expected, are worth so many seconds."""
        return gain > self.rate * seconds

    def size(self, chances: Sequence[float], least: int = 0) -> int:
        """How many nodes to check, the likeliest first: the most tokens beyond what their time is worth.

        chances: that each node's whole path is accepted, falling. At least `least` of them are taken. Fewer than MARGIN tokens
        more than plain decoding are not worth the risk that a chance is wrong.
        """
        costs, context, rate = self.costs.target, self.context, self.rate
        best, gain = least, sum(chances[:least])
        best_value = gain - rate * costs.of(1 + least, context) + (0.0 if least else MARGIN)
        for count in range(least + 1, len(chances) + 1):
            gain += chances[count - 1]
            value = gain - rate * costs.of(1 + count, context)
            if value > best_value:
                best, best_value = count, value
        return best
