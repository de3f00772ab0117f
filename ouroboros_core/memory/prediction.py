"""A text that is expected: where has the text that is being written got to in it?

The open counterpart of hosted "predicted outputs": yesterday's file, an outline, the last answer. The writing follows the
prediction until it departs from it; then the place is looked for where it goes on, so that an insertion, a deletion or another
word costs a few tokens, not the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NEAR = 48
"""Within how many tokens of the place that was lost a single matching token is enough to go on."""

LONG = 8
"""Tokens compared backwards where a place is looked for; and with how many the beginning is believed."""


class Prediction:
    """Follows a text through the prediction. `at` is the place of the token expected next, `matched` how many led there."""

    def __init__(self, tokens: Sequence[int], far: int) -> None:
        """far: how many tokens must match to go on at a place that is not near."""
        self.tokens = tuple(tokens)
        self.far = far
        self.at = 0
        self.matched = max(far, LONG) if tokens else 0
        """At its beginning the prediction is believed."""
        self._recent: list[int] = []
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(self.tokens):
            self._places.setdefault(token, []).append(place)

    def extend(self, tokens: Iterable[int]) -> None:
        """Follow what was written."""
        for token in tokens:
            self._recent = [*self._recent[1 - LONG :], token]
            if self.matched and self.at < len(self.tokens) and self.tokens[self.at] == token:
                self.at, self.matched = self.at + 1, self.matched + 1
            else:
                self._look(token)

    def _look(self, token: int) -> None:
        """Find where it goes on: the longest match, of equals the nearest; nowhere leaves the place and believes nothing."""
        best = (0, 0, self.at)
        for place in self._places.get(token, ()):
            length = 1
            while length < min(len(self._recent), place + 1) and self.tokens[place - length] == self._recent[-1 - length]:
                length += 1
            distance = abs(place + 1 - self.at)
            if distance <= NEAR or length >= self.far:
                best = max(best, (length, -distance, place + 1))
        self.matched, _, self.at = best

    def expected(self, count: int) -> tuple[int, ...]:
        """What is expected next, up to `count` tokens; nothing while the place is lost."""
        return self.tokens[self.at : self.at + count] if self.matched else ()
