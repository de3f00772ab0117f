"""The definition of speedup over plain decoding, for every screen, table and file.

A round measures plain decoding and the method, one directly after the other. Its speedup is plain
decoding's seconds per token / the method's, prefill included; if both wrote equally many tokens,
that is plain seconds / seconds. The speedup of several rounds is their median. Seconds and tokens
per second beside it are those of the round that has the median, so that they divide to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low

from ouroboros_core.messages import counted


@dataclass(frozen=True)
class Timing:
    """Tokens and seconds of one run, or of several together."""

    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """0 for an empty run."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @classmethod
    def total(cls, timings: Iterable[Timing]) -> Timing:
        every = [*timings]
        return cls(sum(run.tokens for run in every), sum(run.seconds for run in every))


@dataclass(frozen=True)
class TimedRound:
    """Plain decoding and the method, measured in the same round."""

    plain: Timing
    method: Timing

    @property
    def speedup(self) -> float:
        """0 if one of the two is empty."""
        plain = self.plain.tokens_per_second
        return self.method.tokens_per_second / plain if plain else 0.0

    @classmethod
    def total(cls, rounds: Iterable[TimedRound]) -> TimedRound:
        """Return several prompts as one."""
        every = [*rounds]
        return cls(
            Timing.total(pair.plain for pair in every), Timing.total(pair.method for pair in every)
        )


@dataclass(frozen=True)
class Speedup:
    """A speedup, measured in several rounds.

    each  the speedup of every round that counts, in the order of the rounds
    more  whether another round follows
    """

    each: tuple[float, ...]
    more: bool = False

    @property
    def median(self) -> float:
        """The median, a measured value: of two in the middle the lower one."""
        return median_low(self.each)

    @property
    def middle(self) -> int:
        """The index of the round that has the median: its seconds are the ones to show."""
        return self.each.index(self.median)

    @property
    def is_provisional(self) -> bool:
        """Whether this is the first of several rounds: a busy machine may still withdraw it."""
        return self.more and len(self.each) == 1

    @property
    def words(self) -> str:
        """`1.21×`; of the first of several rounds `about 1.2×`."""
        return f"about {self.median:.1f}×" if self.is_provisional else f"{self.median:.2f}×"

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.each), max(self.each)

    @property
    def between(self) -> str:
        """`(1.30–1.41)`; empty for a single round, which has no spread."""
        least, largest = self.spread
        return f"({least:.2f}–{largest:.2f})" if len(self.each) > 1 else ""

    @property
    def remark(self) -> str:
        """The remark beside the median: `(1.30–1.41), 3 rounds`, or `1 round`."""
        return ", ".join(filter(None, (self.between, counted(len(self.each), "round"))))

    def __str__(self) -> str:
        gap = " " if self.between else ", "
        return f"{self.median:.2f}{gap}{self.remark}"
