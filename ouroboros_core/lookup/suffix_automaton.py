"""A suffix automaton over a growing text: the longest suffix that occurred earlier, where it did
most recently, and where first.

States are sets of substrings with the same end positions, joined by suffix links into a tree
(Blumer et al. 1985); a token is added in amortised constant time. Each state knows where it ended
first and last: a new token is noted on the states of its longest suffixes, at most FRESH of them,
because on a text of one repeated token there are as many as tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FRESH = 64
"""Suffixes, the longest first, that learn at once where they ended last. A shorter one may know an
older position. It is asked only where a match is lost and all that is left of it is shorter than
the FRESH longest suffixes of the text before."""


@dataclass(frozen=True)
class Match:
    """A suffix of the text that occurred earlier: its length, and where one of the occurrences
    ended.

    end: the position behind it, which holds the token that followed.
    """

    length: int
    end: int


class SuffixAutomaton:
    """Over all tokens added so far. `SuffixAutomaton().extend([1, 2, 3, 1, 2])` knows that `1 2`
    occurred, followed by 3."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._last = 0
        self._recent: Match | None = None
        self._ended = [-1]
        self._first_ended = [-1]

    def extend(self, tokens: Iterable[int]) -> SuffixAutomaton:
        for token in tokens:
            self.append(token)
        return self

    def append(self, token: int) -> None:
        """Add a token; amortised constant time."""
        position = len(self.tokens)
        self.tokens.append(token)
        state = self._new(self._length[self._last] + 1, {})
        before = self._last
        while before >= 0 and token not in self._next[before]:
            self._next[before][token] = state
            before = self._link[before]
        if before < 0:
            parent = 0
        else:
            parent = self._next[before][token]
            if self._length[parent] != self._length[before] + 1:
                parent = self._clone(before, token, parent)
        self._link[state] = parent
        length = self._length[parent]
        self._recent = Match(length, self._ended[parent] + 1) if length else None
        self._last = state
        self._first_ended[state] = position
        for _ in range(FRESH):
            if state == 0:
                break
            self._ended[state] = position
            state = self._link[state]

    def _new(self, length: int, following: dict[int, int]) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(-1)
        self._ended.append(-1)
        self._first_ended.append(-1)
        return len(self._length) - 1

    def _clone(self, before: int, token: int, old: int) -> int:
        """Split off a state for the shorter substrings of `old`, which now have one more end
        position."""
        clone = self._new(self._length[before] + 1, dict(self._next[old]))
        parent = self._link[old]
        self._link[clone], self._link[old] = parent, clone
        self._ended[clone] = self._ended[old]
        self._first_ended[clone] = self._first_ended[old]
        while before >= 0 and self._next[before].get(token) == old:
            self._next[before][token] = clone
            before = self._link[before]
        return clone

    @property
    def recent(self) -> Match | None:
        """The longest suffix of the whole text that also ended earlier, where it did most recently;
        None if there is none."""
        return self._recent

    def first(self, following: int = 0) -> Match | None:
        """The same suffix where it first ended; None if there is none.

        Where fewer than `following` tokens stand behind that, it is the longest shorter suffix
        behind whose first occurrence so many do, or else the shortest one that is known.
        """
        state = self._link[self._last]
        if state <= 0:
            return None
        while self._link[state] > 0 and self._behind(state) < following:
            state = self._link[state]
        return Match(self._length[state], self._first_ended[state] + 1)

    def _behind(self, state: int) -> int:
        """Tokens behind the first occurrence of a state's substrings."""
        return len(self.tokens) - self._first_ended[state] - 1
