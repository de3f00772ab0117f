"""Tests whether counts fit probabilities: Pearson's chi-square test, and for hardly more than one
outcome the exact binomial test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 5.0
"""Least expected count of an outcome for a valid test, by the usual rule."""
TINY = 1e-15
STEPS = 10_000


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
    """Return the probability of a larger chi-square.

    This is the regularised upper incomplete gamma function Q(degrees / 2, statistic / 2), by its
    series or, if that is slow, its continued fraction (Abramowitz and Stegun 6.5.29 and 6.5.31).
    """
    a, x = degrees / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        return min(1.0, max(0.0, 1 - scale * _series(a, x)))
    return min(1.0, scale * _fraction(a, x))


def _series(a: float, x: float) -> float:
    """Return the sum of x^n / (a (a + 1) ... (a + n)) over all n."""
    term = total = 1 / a
    for n in range(1, STEPS):
        term *= x / (a + n)
        total += term
        if term < total * TINY:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Return 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))).

    It is computed from the inside, from a depth at which the rest is negligible.
    """
    depth = 200 + int(10 * a)
    value = x + 2 * depth + 1 - a
    for n in range(depth, 0, -1):
        value = x + 2 * n - 1 - a - n * (n - a) / value
    return 1 / value
