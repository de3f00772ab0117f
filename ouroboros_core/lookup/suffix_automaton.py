"""A suffix automaton over a growing text: the longest suffix that occurred earlier, with its first
and its most recent occurrence.

A state is a set of substrings with the same end positions; suffix links join the states into a tree
(Blumer et al. 1985). Adding a token takes amortised constant time. Each state stores its first and
its last end position. A new token updates only the states of its FRESH longest suffixes, because a
text of one repeated token has as many suffix states as tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

FRESH = 64
"""Number of longest suffixes whose last end position is always up to date. A shorter suffix may
store an older position. It is needed only if a match is lost and its remainder is shorter than the
FRESH longest suffixes of the text before."""


@dataclass(frozen=True)
class Match:
    """An earlier occurrence of a suffix of the text.

    length  tokens of the suffix
    end     position of the token that followed the occurrence
    """

    length: int
    end: int


class States:
    """The states of the automaton of all tokens added so far."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._first_ended = [-1]
        self._last = 0

    def extend(self, tokens: Iterable[int]) -> Self:
        for token in tokens:
            self.append(token)
        return self

    def append(self, token: int) -> None:
        """Add a token; amortised constant time."""
        state = self._new(self._length[self._last] + 1, {}, len(self.tokens))
        self.tokens.append(token)
        before, parent = self._last, 0
        while before >= 0 and token not in self._next[before]:
            self._next[before][token] = state
            before = self._link[before]
        if before >= 0:
            parent = self._next[before][token]
            if self._length[parent] != self._length[before] + 1:
                parent = self._clone(before, token, parent)
        self._link[state] = parent
        self._last = state

    def _new(self, length: int, following: dict[int, int], first_ended: int) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(-1)
        self._first_ended.append(first_ended)
        return len(self._length) - 1

    def _clone(self, before: int, token: int, old: int) -> int:
        """Split off a state for the shorter strings of `old`, which have one end more."""
        length, following = self._length[before] + 1, dict(self._next[old])
        clone = self._new(length, following, self._first_ended[old])
        parent = self._link[old]
        self._link[clone], self._link[old] = parent, clone
        while before >= 0 and self._next[before].get(token) == old:
            self._next[before][token] = clone
            before = self._link[before]
        return clone


class SuffixAutomaton(States):
    """Finds earlier occurrences: in `1 2 3 1 2` that of `1 2`, followed by 3."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = [-1]
        self._recent: Match | None = None

    def append(self, token: int) -> None:
        super().append(token)
        state = self._last
        parent = self._link[state]
        length = self._length[parent]
        self._recent = Match(length, self._ended[parent] + 1) if length else None
        for _ in range(FRESH):
            if state == 0:
                break
            self._ended[state] = len(self.tokens) - 1
            state = self._link[state]

    def _new(self, length: int, following: dict[int, int], first_ended: int) -> int:
        self._ended.append(-1)
        return super()._new(length, following, first_ended)

    def _clone(self, before: int, token: int, old: int) -> int:
        clone = super()._clone(before, token, old)
        self._ended[clone] = self._ended[old]
        return clone

    @property
    def recent(self) -> Match | None:
        """The most recent earlier occurrence of the longest suffix that has one, or None."""
        return self._recent

    def first(self, following: int = 0) -> Match | None:
        """Return the first occurrence of the same suffix, or None.

        If fewer than `following` tokens follow it, take the longest shorter suffix that has enough
        tokens after its first occurrence, or else the shortest suffix that has a state.
        """
        state = self._link[self._last]
        if state <= 0:
            return None
        while self._link[state] > 0 and self._behind(state) < following:
            state = self._link[state]
        return Match(self._length[state], self._first_ended[state] + 1)

    def _behind(self, state: int) -> int:
        """Return the number of tokens after the first occurrence of a state's substrings."""
        return len(self.tokens) - self._first_ended[state] - 1
