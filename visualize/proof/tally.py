"""The Lab's proof: counts over many seeds against the target's own probabilities."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from ouroboros_core.messages import counted
from visualize.proof.chi_square import LEAST, Fit, binomial, fit, pooled

FALSE_ALARM = 0.001
"""A p-value below this counts as a difference."""
ROOM = 5
"""Tokens beyond the counted ones, so that a method has something to draft."""
FEW = 0.1
"""A share of accepted tokens below this is few."""
MOST_BARS = 24
"""Outcomes that have a bar."""


@dataclass(frozen=True)
class Tally:
    """The counts of one proof so far; plain data.

    texts               outcomes that are likely enough to be counted separately, as text
    probabilities       of these outcomes, by plain passes of the target
    counts              how often each was drawn; `other`: all other outcomes
    seeds               all that the proof will draw
    tokens, steps       of all runs
    proposed, accepted  tokens of the drafts in all runs
    late                whether its time ended the proof
    """

    texts: tuple[str, ...]
    probabilities: tuple[float, ...]
    counts: tuple[int, ...]
    other: int
    seeds: int
    tokens: int = 0
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    late: bool = False

    @property
    def drawn(self) -> int:
        return sum(self.counts) + self.other

    @property
    def rest(self) -> float:
        """Return the probability of all other outcomes; a remainder of rounding is 0."""
        rest = 1 - sum(self.probabilities)
        return rest if rest > 1e-9 else 0.0

    @property
    def done(self) -> bool:
        return self.late or self.drawn >= self.seeds

    @property
    def fit(self) -> Fit | None:
        """Return the chi-square test, rare outcomes pooled; None before it can distinguish any.

        If the likeliest text leaves too little to the others, return its exact binomial test, with
        no degrees of freedom and its count as the statistic.
        """
        counts, p = (*self.counts, self.other), (*self.probabilities, self.rest)
        if self.other and not self.rest:
            return fit(counts, p)  # a pool would hide the impossible
        pooled_counts, shares = pooled(counts, p)
        is_single = sum(share > 0 for share in shares) < 2
        return self._exact() if is_single else fit(pooled_counts, shares)

    def _exact(self) -> Fit | None:
        p = max(self.probabilities, default=0.0)
        if p * self.drawn < LEAST:
            return None
        count = self.counts[self.probabilities.index(p)]
        return Fit(count, 0, binomial(count, self.drawn, p))


def verdict(tally: Tally) -> str:
    """Return the verdict as a sentence, once, at the end.

    To look at a p-value repeatedly and stop at a small one would find one too often.
    """
    if not tally.done:
        return "Judged once, when all are drawn."
    if not tally.drawn:
        return "Nothing to judge: take fewer seeds or tokens, or a shorter prompt."
    result, so_far = tally.fit, counted(tally.drawn, "seed")
    if result is None:
        return (
            f"{so_far}, too few to judge: hardly any text is expected often. Take more "
            "seeds, fewer tokens, or a lower temperature."
        )
    numbers = _numbers(result, tally)
    if result.p_value < FALSE_ALARM:
        return f"{so_far}: these counts do not come from the target's p: {numbers}."
    return f"{so_far} are consistent with the target's p: {numbers}."


def _numbers(result: Fit, tally: Tally) -> str:
    if math.isinf(result.statistic):
        return f"{tally.other} of them wrote what p rules out"
    chance = "below 0.001" if result.p_value < 0.001 else f"{result.p_value:.3f}"
    if not result.degrees:
        expected = max(tally.probabilities) * tally.drawn
        return (
            f"the likeliest text came {int(result.statistic)} times, {expected:.1f} expected; "
            f"exact binomial test, p-value {chance}. A higher temperature lets more texts count"
        )
    freedom = counted(result.degrees, "degree")
    return f"chi-square {result.statistic:.1f} with {freedom} of freedom, p-value {chance}"


def drafts(tally: Tally) -> str:
    """Return how many draft tokens the texts have: without any, nothing would be proved."""
    if not tally.drawn:
        return ""
    if not tally.proposed:
        return "Nothing was proposed, so nothing was judged."
    words = (
        f"Forward passes of the target: {tally.steps}, for {counted(tally.tokens, 'token')}; "
        f"{tally.accepted} of {tally.proposed} proposed tokens were accepted."
    )
    few = tally.accepted < FEW * tally.proposed
    return f"{words} Few of them: the test says little about accepted drafts." if few else words


def view(tally: Tally | None, status: str = "", name: str = "") -> dict[str, Any]:
    """Return the view: {seq, proof, status, drawn, seeds, rows: [{text, count, seen, p}], verdict,
    off, drafts, done}.

    `seen` and `p` are shares; `off` is None until all seeds are drawn.
    """
    head: dict[str, Any] = {"seq": time.time_ns(), "proof": name, "status": status}
    if tally is None:
        blank: dict[str, Any] = {
            "rows": [],
            "verdict": "",
            "drafts": "",
            "off": None,
            "done": False,
        }
        return head | {"drawn": 0, "seeds": 0} | blank
    result = tally.fit if tally.done else None
    rows: list[dict[str, Any]] = [
        {"text": text, "count": count, "seen": count / max(1, tally.drawn), "p": p}
        for text, count, p in zip(tally.texts, tally.counts, tally.probabilities, strict=True)
    ]
    hidden = rows[MOST_BARS:]
    other: dict[str, Any] = {
        "text": None,
        "count": tally.other + sum(row["count"] for row in hidden),
        "p": tally.rest + sum(row["p"] for row in hidden),
    }
    other["seen"] = other["count"] / max(1, tally.drawn)
    return head | {
        "drawn": tally.drawn,
        "seeds": tally.seeds,
        "rows": [*rows[:MOST_BARS], other] if tally.drawn else [],
        "verdict": verdict(tally),
        "drafts": drafts(tally),
        "off": None if result is None else result.p_value < FALSE_ALARM,
        "done": tally.done,
    }
