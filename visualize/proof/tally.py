"""The Lab's proof: counts over many seeds against the target's own probabilities."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from ouroboros_core.messages import counted
from visualize.proof.chi_square import LEAST, Fit, binomial, fit, pooled

FALSE_ALARM = 0.001
"""A p-value below this is taken for a difference."""
ROOM = 5
"""Tokens beyond those that are counted, so that there is something to draft."""
SHOWN = 24
"""Outcomes that have a bar."""


@dataclass(frozen=True)
class Tally:
    """Of one proof so far; plain data.

    texts          outcomes that are likely enough to be counted apart, as text
    probabilities  theirs, by plain passes of the target
    counts         how often each was drawn; `other`: how often something else
    seeds          to be drawn in all
    tokens, steps  of all runs
    proposed, accepted  tokens of the drafts in them
    late           whether the time that is allowed ended it
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
        """The probability of everything else; what rounding leaves is none."""
        rest = 1 - sum(self.probabilities)
        return rest if rest > 1e-9 else 0.0

    @property
    def done(self) -> bool:
        return self.late or self.drawn >= self.seeds

    @property
    def fit(self) -> Fit | None:
        """The chi-square test, what is expected too seldom pooled; None where nothing can be told
        apart yet. Where the likeliest text leaves too little to the others, its exact binomial
        test, with no degrees of freedom and its count as the statistic."""
        counts, p = (*self.counts, self.other), (*self.probabilities, self.rest)
        if self.other and not self.rest:
            return fit(counts, p)  # the impossible is not to be lost in a pool
        together, shares = pooled(counts, p)
        alone = sum(one > 0 for one in shares) < 2
        return self._exact() if alone else fit(together, shares)

    def _exact(self) -> Fit | None:
        p = max(self.probabilities, default=0.0)
        if p * self.drawn < LEAST:
            return None
        count = self.counts[self.probabilities.index(p)]
        return Fit(count, 0, binomial(count, self.drawn, p))


def verdict(tally: Tally) -> str:
    """What the counts say, in a sentence: once, at the end. Whoever looks at a p-value again and
    again, and stops at a small one, finds one too often."""
    if not tally.done:
        return "Judged once, when all are drawn."
    if not tally.drawn:
        return "Nothing to judge: take fewer seeds or tokens, or a shorter prompt."
    found, so_far = tally.fit, counted(tally.drawn, "seed")
    if found is None:
        return (
            f"{so_far}, too few to judge: hardly any text is expected often. Take more "
            "seeds, fewer tokens, or a lower temperature."
        )
    numbers = _numbers(found, tally)
    if found.p_value < FALSE_ALARM:
        return f"{so_far}: these counts do not come from the target's p: {numbers}."
    return f"{so_far} are consistent with the target's p: {numbers}."


def _numbers(found: Fit, tally: Tally) -> str:
    """What a verdict rests on."""
    if math.isinf(found.statistic):
        return f"{tally.other} of them wrote what p rules out"
    chance = "below 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
    if not found.degrees:
        expected = max(tally.probabilities) * tally.drawn
        return (
            f"the likeliest text came {int(found.statistic)} times, {expected:.1f} expected; exact "
            f"binomial test, p-value {chance}. A higher temperature lets more texts count"
        )
    freedom = counted(found.degrees, "degree")
    return f"chi-square {found.statistic:.1f} with {freedom} of freedom, p-value {chance}"


def drafts(tally: Tally) -> str:
    """How much of the drafts was in the texts: without any, nothing would be proved."""
    if not tally.drawn:
        return ""
    if not tally.proposed:
        return "Nothing was proposed, so nothing was judged."
    return (
        f"Forward passes of the target: {tally.steps}, for {counted(tally.tokens, 'token')}; "
        f"{tally.accepted} of {tally.proposed} proposed tokens were accepted."
    )


def view(tally: Tally | None, status: str = "", name: str = "") -> dict[str, Any]:
    """What the page draws: {seq, proof, status, drawn, seeds, rows: [{text, count, seen, p}],
    verdict, off, drafts, done}; `seen` and `p` are shares, `off` is None until all is drawn."""
    shown: dict[str, Any] = {"seq": time.time_ns(), "proof": name, "status": status}
    if tally is None:
        blank: dict[str, Any] = {
            "rows": [],
            "verdict": "",
            "drafts": "",
            "off": None,
            "done": False,
        }
        return shown | {"drawn": 0, "seeds": 0} | blank
    found = tally.fit if tally.done else None
    rows: list[dict[str, Any]] = [
        {"text": text, "count": count, "seen": count / max(1, tally.drawn), "p": p}
        for text, count, p in zip(tally.texts, tally.counts, tally.probabilities, strict=True)
    ]
    hidden = rows[SHOWN:]
    other: dict[str, Any] = {
        "text": None,
        "count": tally.other + sum(row["count"] for row in hidden),
        "p": tally.rest + sum(row["p"] for row in hidden),
    }
    other["seen"] = other["count"] / max(1, tally.drawn)
    return shown | {
        "drawn": tally.drawn,
        "seeds": tally.seeds,
        "rows": [*rows[:SHOWN], other] if tally.drawn else [],
        "verdict": verdict(tally),
        "drafts": drafts(tally),
        "off": None if found is None else found.p_value < FALSE_ALARM,
        "done": tally.done,
    }
