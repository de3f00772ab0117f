"""Follows the output through a predicted output.

The open counterpart of hosted "predicted outputs": yesterday's file, an outline, the last answer.
The writing follows the prediction until it departs from it. Then the position is looked for at
which it goes on, so that an insertion, a deletion or another word costs a few tokens, not the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

SEARCH_RADIUS = 48
"""Within so many tokens of the position that was lost, one matching token is enough to go on."""

CREDIT = 8
"""How many matched tokens the prediction is trusted for at its beginning, before anything has
matched."""


class Prediction:
    """Follows a text through the prediction.

    at       the position of the token that is expected next
    matched  how many tokens of the text led there without a gap
    """

    def __init__(self, tokens: Sequence[int], min_match: int) -> None:
        """min_match: how many tokens must match to go on further than SEARCH_RADIUS away."""
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
        """How far the next tokens are trusted: the matched tokens and, at the beginning, a
        credit."""
        return self.matched + self._credit

    def expected(self, count: int) -> tuple[int, ...]:
        """The next expected tokens, up to `count`; none while the position is lost."""
        return self.tokens[self.at : self.at + count] if self.trust else ()

    def extend(self, tokens: Iterable[int]) -> None:
        """Follow what was written."""
        for token in tokens:
            self._recent = [*self._recent[max(0, len(self._recent) + 1 - self.min_match) :], token]
            if self.trust and self.at < len(self.tokens) and self.tokens[self.at] == token:
                self.at, self.matched = self.at + 1, self.matched + 1
                if self.matched >= self.min_match:
                    self._lost_at = None
            else:
                self._look(token)

    def _look(self, token: int) -> None:
        """Search for the position to resume at, near the one that was lost. Without a match the
        position stays and nothing is trusted."""
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
        """The number of tokens before `end` that equal the last written ones."""
        length = 0
        while (
            length < min(len(self._recent), end)
            and self.tokens[end - 1 - length] == self._recent[-1 - length]
        ):
            length += 1
        return length
