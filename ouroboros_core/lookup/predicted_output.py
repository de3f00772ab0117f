"""A position in a predicted output that follows the text as it is written.

This is the open counterpart of hosted "predicted outputs": yesterday's file, an outline, the last
answer. When the text departs from the prediction, the position where it continues is searched for.
So an insertion, a deletion or a changed word costs a few tokens, and not the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

SEARCH_RADIUS = 48
"""Distance from the lost position within which one matching token is enough to resume."""

CREDIT = 8
"""Matched tokens that the beginning of the prediction counts for, before any token has matched."""


class Prediction:
    """A prediction, and the position that the text has reached in it.

    at       position of the next expected token
    matched  number of tokens of the text that led there without a gap
    """

    def __init__(self, tokens: Sequence[int], min_match: int) -> None:
        """min_match: tokens that must match to resume further than SEARCH_RADIUS away."""
        self.tokens = tuple(tokens)
        self.min_match = min_match
        self.at = self.matched = 0
        self._credit = CREDIT if tokens else 0
        self._lost_at: int | None = None
        self._recent: list[int] = []
        self._behind: dict[int, list[int]] = {}
        self._behind_match: dict[tuple[int, ...], list[int]] = {}
        for end in range(1, len(self.tokens) + 1):
            self._behind.setdefault(self.tokens[end - 1], []).append(end)
            if end >= min_match:
                self._behind_match.setdefault(self.tokens[end - min_match : end], []).append(end)

    @property
    def trust(self) -> int:
        """Number of tokens to trust: the matched tokens and, at the beginning, a credit."""
        return self.matched + self._credit

    def expected(self, count: int) -> tuple[int, ...]:
        """Return up to `count` next expected tokens; none while the position is lost."""
        return self.tokens[self.at : self.at + count] if self.trust else ()

    def extend(self, tokens: Iterable[int]) -> None:
        """Follow new tokens of the text."""
        for token in tokens:
            self._recent = [*self._recent[max(0, len(self._recent) + 1 - self.min_match) :], token]
            if self.trust and self.at < len(self.tokens) and self.tokens[self.at] == token:
                self.at, self.matched = self.at + 1, self.matched + 1
                if self.matched >= self.min_match:
                    self._lost_at = None
            else:
                self._look(token)

    def _look(self, token: int) -> None:
        """Search for the position to resume at, near the lost one.

        Without a match the position stays, and nothing is trusted.
        """
        origin = self.at if self._lost_at is None else self._lost_at
        self._lost_at, self._credit = origin, 0
        matching = self._behind_match.get(tuple(self._recent), ())
        if matching:
            self.matched = self.min_match
            self.at = min(matching, key=lambda end: abs(end - origin))
            return
        ends = self._behind.get(token, [])
        nearby = ends[
            bisect_left(ends, origin - SEARCH_RADIUS) : bisect_right(ends, origin + SEARCH_RADIUS)
        ]
        best = max(
            ((self._length(end), -abs(end - origin), end) for end in nearby), default=(0, 0, origin)
        )
        self.matched, _, self.at = best

    def _length(self, end: int) -> int:
        """Return the number of tokens before `end` that equal the text's last tokens."""
        length = 0
        while (
            length < min(len(self._recent), end)
            and self.tokens[end - 1 - length] == self._recent[-1 - length]
        ):
            length += 1
        return length
