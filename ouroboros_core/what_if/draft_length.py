"""Predict the results of other draft lengths from one run of a chain of draft tokens.

With `match`, the text does not depend on the draft length: a guess is accepted if it is the token
that the text has there, whatever the length. A run shows at which positions the draft model guesses
right: where it was accepted and where it was rejected. It does not show the position after a chain
that was accepted as a whole; there the chance is the share of right guesses at positions at which
the target was about as sure (the recorded probability of its token), or at all positions without
recorded probabilities.

The cost of a step is that of its draft passes, of a target pass over its rows, and of the work
beside them, all measured in the run and in the plain run beside it. A pass over another number of
rows costs as interpolated between one row and the rows of the run, with the shape of the machine's
costs if the run kept them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import mean, median_low

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import PassCosts
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace

LONGEST = 16
"""Draft tokens at most."""
Choices = Callable[[int], Sequence[int]]
"""The draft lengths to choose from, by the number of tokens that may follow a step's first."""
BANDS = (0.5, 0.8, 0.95)
"""Limits between bands of the target's probability."""
PRIOR = 2.0
"""Guesses with the mean chance that are added to a band, which may have few."""


@dataclass(frozen=True)
class Predicted:
    """The expected result of a draft length, or of a choice in every step.

    seconds  prefill included
    """

    tokens: int
    passes: float
    seconds: float
    speedup: float

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes


def applies(trace: Trace) -> bool:
    """Whether a run is one of chains of draft tokens whose text any draft length repeats."""
    sampling = Sampling.model_validate(trace.sampling)
    kind = methods.available().get(trace.method)
    chains = kind is not None and kind.chain_of_passes and bool(trace.steps) and not trace.grammar
    return chains and sampling.repeats_plain_text


@dataclass(frozen=True)
class DraftLengths:
    """Predictions from a run and its plain run; raises InvalidInput if they say nothing of
    others."""

    trace: Trace
    baseline: Trace

    def __post_init__(self) -> None:
        if not applies(self.trace):
            raise InvalidInput(
                "draft lengths are predicted from a run of speculative decoding whose text is that "
                "of plain decoding"
            )
        if not any(step.draft_passes for step in self.trace.steps) or not self.baseline.steps:
            raise InvalidInput("this run, or its plain run, has no pass to learn the costs from")

    @property
    def tokens(self) -> int:
        return metrics.new_tokens(self.trace)

    @cached_property
    def chances(self) -> list[float]:
        """The chance of a right guess at each position of the text; mostly 0 or 1."""
        right, sure = _guesses(self.trace.steps)
        overall = mean(right.values()) if right else 0.0

        def chance(position: int) -> float:
            band = _band(sure.get(position))
            hits = [hit for place, hit in right.items() if _band(sure.get(place)) == band]
            return (sum(hits) + PRIOR * overall) / (len(hits) + PRIOR)

        return [float(right[n]) if n in right else chance(n) for n in range(self.tokens)]

    @cached_property
    def draft_seconds(self) -> float:
        steps = self.trace.steps
        return sum(s.seconds.draft for s in steps) / sum(s.draft_passes for s in steps)

    @cached_property
    def _measured(self) -> PassCosts | None:
        """The costs that the run kept; a pass over more rows is not shorter."""
        costs = sorted(self.trace.costs.items())
        seconds = accumulate((cost for _, cost in costs), max)
        return PassCosts(tuple(rows for rows, _ in costs), tuple(seconds)) if costs else None

    def _pass_seconds(self, rows: int) -> float:
        measured = self._measured
        single = mean(step.seconds.verify for step in self.baseline.steps)
        width = median_low(step.width for step in self.trace.steps)
        if width <= 1:
            return single * (measured.of(rows) / measured.of(1) if measured else 1.0)
        wide = mean(step.seconds.verify for step in self.trace.steps if step.width == width)
        costs = measured or PassCosts((1, width), (single, max(single, wide)))
        share = min(1.0, (rows - 1) / (width - 1))
        narrow_factor, wide_factor = single / costs.of(1), wide / costs.of(width)
        return costs.of(rows) * (narrow_factor + share * (wide_factor - narrow_factor))

    @cached_property
    def _step_costs(self) -> list[float]:
        """Seconds of a step by its draft tokens."""
        host = mean(step.seconds.learn + step.seconds.host for step in self.trace.steps)
        drafted = [n * self.draft_seconds for n in range(LONGEST + 1)]
        return [draft + self._pass_seconds(1 + n) + host for n, draft in enumerate(drafted)]

    def of(self, length: int) -> Predicted:
        return self._predicted(lambda left: (min(length, left),))

    @cached_property
    def oracle(self) -> Predicted:
        """The most that any choice of lengths could reach, knowing the right guesses."""
        return self._predicted(lambda left: range(min(LONGEST, left) + 1))

    def _predicted(self, choices: Choices) -> Predicted:
        """Return the expected result of the fastest choices, computed from the end of the text."""
        seconds, passes = [0.0] * (self.tokens + 1), [0.0] * (self.tokens + 1)
        for start in reversed(range(self.tokens)):
            options = []
            for length in choices(self.tokens - start - 1):
                ends = list(self._ends(start, length))
                options.append(
                    (
                        self._step_costs[length] + sum(p * seconds[end] for end, p in ends),
                        1.0 + sum(p * passes[end] for end, p in ends),
                    )
                )
            seconds[start], passes[start] = min(options)
        prefill = sum(step.seconds.prefill for step in self.trace.steps)
        total, plain = prefill + seconds[0], metrics.total_seconds(self.baseline)
        speedup = plain / metrics.new_tokens(self.baseline) * self.tokens / total
        return Predicted(self.tokens, passes[0], total, speedup)

    def _ends(self, start: int, length: int) -> Iterator[tuple[int, float]]:
        """Yield where a step may end, with the chance of each end."""
        reached = 1.0
        for accepted in range(length):
            chance = self.chances[start + accepted]
            if chance < 1.0:
                yield start + accepted + 1, reached * (1.0 - chance)
            reached *= chance
            if not reached:
                return
        yield start + length + 1, reached


def _guesses(steps: Sequence[Step]) -> tuple[dict[int, bool], dict[int, float]]:
    """Return by position whether the draft guessed right, where that is known; and the target's
    probability of its token, where it was recorded."""
    right: dict[int, bool] = {}
    sure: dict[int, float] = {}
    start = 0
    for step in steps:
        right |= dict.fromkeys(range(start, start + len(step.path)), True)
        if len(step.path) < len(step.tree) - 1:
            right[start + len(step.path)] = False
        for offset, (judged, token) in enumerate(zip(step.judged, step.tokens, strict=False)):
            if token in judged.tokens:
                sure[start + offset] = judged.target[judged.tokens.index(token)]
        start += len(step.tokens)
    return right, sure


def _band(probability: float | None) -> int | None:
    return None if probability is None else sum(probability >= limit for limit in BANDS)
