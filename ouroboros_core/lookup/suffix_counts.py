"""Frequencies of every string of a growing text, and the continuation they make most probable.

The structure of SuffixDecoding (arXiv 2411.04975, section 4) without a tree of its own: a suffix
automaton with a count per state. The count of a string is the number of positions where it ends.
A new token adds one to the states of all suffixes of at most `depth` tokens, which are at most
`depth` states.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from ouroboros_core.lookup.suffix_automaton import States


@dataclass(frozen=True)
class Continuation:
    """Tokens that followed a match, as a tree.

    match      tokens of the matched suffix
    tokens     token ids, parents before their children
    parents    index of each token's parent; -1 for the end of the text
    reaches    of each token the product of the observed frequencies up to it
    positions  of each token, where it first followed what it follows here
    """

    match: int
    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    reaches: tuple[float, ...] = ()
    positions: tuple[int, ...] = ()

    @property
    def score(self) -> float:
        """Return the number of tokens that the frequencies let expect to be accepted."""
        return sum(self.reaches)


@dataclass(frozen=True)
class Scoring:
    """Limits of a continuation, as in the authors' code.

    most       largest number of tokens
    alpha      tokens for each matched one (`max_spec_factor`)
    offset     tokens beyond that (`max_spec_offset`)
    least      smallest product of frequencies that is followed (`min_token_prob`)
    branching  whether the tokens are a tree of the most probable ones instead of one path
    """

    most: int
    alpha: float = 1.0
    offset: float = 0.0
    least: float = 0.1
    branching: bool = False


class SuffixCounts(States):
    """Counts over all tokens added so far; strings of more than `depth` tokens are not counted.

    A negative token separates two texts: no continuation contains it.
    """

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self._count = [0]
        self._suffix = Cursor(self)

    def append(self, token: int) -> None:
        """Add a token; at most `depth` counts change."""
        super().append(token)
        self._suffix.follow(token)
        counted = self._suffix.state
        self._count[0] += 1
        while counted > 0:
            self._count[counted] += 1
            counted = self._link[counted]

    def _new(self, length: int, following: dict[int, int], first_ended: int) -> int:
        self._count.append(0)
        return super()._new(length, following, first_ended)

    def _clone(self, before: int, token: int, old: int) -> int:
        clone = super()._clone(before, token, old)
        self._count[clone] = self._count[old]
        if self._suffix.state == old and self._suffix.length <= self._length[clone]:
            self._suffix.state = clone
        return clone

    def best(self, cursor: Cursor | None, scoring: Scoring) -> Continuation:
        """Return the continuation with the largest score over all suffixes that occurred.

        cursor  the longest suffix in question; None: that of the counted text itself

        Of equal scores the longer match wins. Without a match there are no tokens.
        """
        best = Continuation(0)
        for state, shortest, longest in (cursor or self._suffix).suffixes():
            # All of them have the same continuations; the longer they are, the less depth is left.
            lengths = range(longest, shortest - 1, -1)
            match = max(lengths, key=lambda length: self._limit(length, scoring))
            continuation = self._continuation(state, match, scoring)
            if continuation.score > best.score:
                best = continuation
        return best

    def _limit(self, match: int, scoring: Scoring) -> int:
        """Return the most tokens that may follow a match."""
        # The authors add the last amount as well: 0.58 * 50 is 28.999999999999996.
        budget = int(scoring.alpha * match + scoring.offset + 1e-6)
        return min(scoring.most, budget, self.depth - match)

    def _continuation(self, state: int, match: int, scoring: Scoring) -> Continuation:
        limit = self._limit(match, scoring)
        if limit < 1 or not self._next[state]:
            return Continuation(match)
        tokens: list[int] = []
        parents: list[int] = []
        reaches: list[float] = []
        positions: list[int] = []
        tickets = count()
        waiting = [(-1.0, next(tickets), -1, state, 0)]
        while waiting and len(tokens) < limit:
            reach, _, parent, node, token = heapq.heappop(waiting)
            if node != state:
                tokens.append(token)
                parents.append(parent)
                reaches.append(-reach)
                positions.append(self._first_ended[node])
            index = len(tokens) - 1
            children = self._children(node)
            for token, child in children if scoring.branching else children[:1]:
                probability = reach * self._count[child] / self._count[node]
                if -probability >= scoring.least:
                    heapq.heappush(waiting, (probability, next(tickets), index, child, token))
        columns = tuple(tokens), tuple(parents), tuple(reaches), tuple(positions)
        return Continuation(match, *columns)

    def _children(self, state: int) -> list[tuple[int, int]]:
        """Return (token, state) of what follows, the most frequent first, then the first seen."""
        following = [(token, child) for token, child in self._next[state].items() if token >= 0]
        return sorted(following, key=lambda item: -self._count[item[1]])


class Cursor:
    """The longest suffix of a text, of at most `depth` tokens, that the counted text contains.

    The text may be another one than the counted one, which must not grow meanwhile.
    """

    def __init__(self, counts: SuffixCounts, text: Sequence[int] = ()) -> None:
        self._counts = counts
        self.state, self.length, self.read = 0, 0, 0
        self.extend(text)

    def extend(self, tokens: Iterable[int]) -> Cursor:
        for token in tokens:
            self.follow(token)
        return self

    def follow(self, token: int) -> None:
        """Go on with a token; amortised constant time."""
        counts = self._counts
        self.read += 1
        while self.state and token not in counts._next[self.state]:
            self.state = counts._link[self.state]
            self.length = counts._length[self.state]
        if token not in counts._next[self.state]:
            return
        self.state, self.length = counts._next[self.state][token], self.length + 1
        self.length = min(self.length, counts.depth)
        while counts._length[counts._link[self.state]] >= self.length:
            self.state = counts._link[self.state]

    def suffixes(self) -> Iterator[tuple[int, int, int]]:
        """Yield (state, shortest, longest) length of suffixes by state, the longest first."""
        state, length = self.state, self.length
        while state > 0:
            parent = self._counts._link[state]
            shorter = self._counts._length[parent]
            yield state, shorter + 1, length
            state, length = parent, shorter
