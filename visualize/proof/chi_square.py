"""Tests whether counts fit probabilities: Pearson's chi-square test, and for hardly more than one
outcome the exact binomial test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 5.0
"""Least expected count of an outcome for a valid test, by the usual rule."""


@dataclass(frozen=True)
class Fit:
    """Result of a test.

    statistic  the sum of (count - expected)^2 / expected
    degrees    of freedom
    p_value    probability of a larger statistic if the counts come from the probabilities
    """

    statistic: float
    degrees: int
    p_value: float


def fit(counts: Sequence[int], probabilities: Sequence[float]) -> Fit | None:
    """Return how well counts fit probabilities, which add up to 1.

    None if fewer than two outcomes are possible, or nothing was counted. If an impossible outcome
    was counted, the p-value is 0.
    """
    total = sum(counts)
    pairs = [*zip(counts, probabilities, strict=True)]
    possible = [(count, p) for count, p in pairs if p > 0]
    degrees = max(0, len(possible) - 1)
    if any(count for count, p in pairs if p <= 0):
        return Fit(math.inf, degrees, 0.0)
    if not total or not degrees:
        return None
    statistic = sum((count - total * p) ** 2 / (total * p) for count, p in possible)
    return Fit(statistic, degrees, beyond(statistic, degrees))


def pooled(
    counts: Sequence[int], probabilities: Sequence[float], least: float = LEAST
) -> tuple[list[int], list[float]]:
    """Return counts and probabilities with all rare outcomes as one, the last.

    Outcomes expected less than `least` times are rare. If the pool is still rare, the least
    probable of the others join it. Pooling depends on the total, never on single counts.
    """
    total = sum(counts)
    order = sorted(zip(probabilities, counts, strict=True), key=lambda pair: -pair[0])
    separate = [pair for pair in order if total * pair[0] >= least]
    rest = order[len(separate) :]
    while separate and rest and 0 < total * sum(p for p, _ in rest) < least:
        rest.append(separate.pop())
    outcomes = [*separate, *([(sum(p for p, _ in rest), sum(c for _, c in rest))] if rest else [])]
    return [count for _, count in outcomes], [p for p, _ in outcomes]


def binomial(count: int, total: int, p: float) -> float:
    """Return the two-sided exact p-value of an outcome of probability p > 0, `count` in `total`.

    It is the probability of all counts that are no likelier than this one.
    """
    if p >= 1:
        return float(count == total)

    def chance(k: int) -> float:
        ways = math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
        return math.exp(ways + k * math.log(p) + (total - k) * math.log1p(-p))

    limit = chance(count) * (1 + 1e-9)  # rounding makes some equal chances larger
    return min(1.0, sum(p for p in map(chance, range(total + 1)) if p <= limit))


def beyond(statistic: float, degrees: int) -> float:
    """Return the probability of a larger chi-square with one degree of freedom or more: a finite
    sum (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    half, odd = statistic / 2, degrees % 2
    if half <= 0:
        return 1.0
    powers = (n + odd / 2 for n in range(degrees // 2))
    terms = (math.exp(p * math.log(half) - half - math.lgamma(p + 1)) for p in powers)
    return min(1.0, sum(terms) + (math.erfc(math.sqrt(half)) if odd else 0.0))
