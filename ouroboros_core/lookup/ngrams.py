"""N-grams of a growing text: where each occurred, what followed how often; and continuations
counted into a trie."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, islice


class Occurrences:
    """Where every n-gram of a text ended, for n up to `longest`; a token is added in constant
    time."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.tokens.append(token)
            end = len(self.tokens)
            for n in range(1, min(self.longest, end) + 1):
                self._ends.setdefault(tuple(self.tokens[end - n :]), []).append(end)

    def earlier(self, shortest: int, at_most: int) -> list[tuple[int, int]]:
        """(length, end) of earlier occurrences of the text's last tokens: the longest n-gram first,
        on a tie the newest.

        `end` is the position behind the occurrence: that of the token which followed it.
        """
        found: dict[int, int] = {}
        for n in range(min(self.longest, len(self.tokens) - 1), shortest - 1, -1):
            for end in islice(reversed(self._ends[tuple(self.tokens[-n:])]), 1, None):
                if len(found) == at_most:
                    break
                found.setdefault(end, n)
        return [(n, end) for end, n in found.items()]

    def first(self, last: Sequence[int]) -> tuple[int, int] | None:
        """(length, end) of the first occurrence of the longest n-gram that ends `last`, which need
        not end the text, with something behind it; None where there is none."""
        for n in range(min(self.longest, len(last)), 0, -1):
            ends = self._ends.get(tuple(last[-n:]))
            if ends and ends[0] < len(self.tokens):
                return n, ends[0]
        return None

    def first_full(self, shortest: int, following: int) -> list[tuple[int, int]]:
        """(length, end) of the first occurrence of the text's last tokens that has so many tokens
        `following` it, the longest n-gram first; at most one, and none overlaps the text's end."""
        for n in range(min(self.longest, len(self.tokens) - 1), shortest - 1, -1):
            for end in self._ends[tuple(self.tokens[-n:])]:
                if end + following <= len(self.tokens):
                    return [(n, end)]
        return []


def copied(text: Sequence[int], end: int, length: int) -> list[tuple[int, int]]:
    """(position, token): `length` tokens of a text from `end` on; at the end of the text it goes on
    with what it has just copied.

    For `a b a b a`, end 2 and length 5: the a and b at 2, 3, 4, then 2 and 3 again.
    """
    return [(n, text[n]) for n in (end + k % (len(text) - end) for k in range(length))]


class Counts:
    """How often each token followed each context of `shortest` to n - 1 tokens; or, with
    `one_level`, of n - 1 tokens alone."""

    def __init__(self, n: int, one_level: bool = False, shortest: int = 1) -> None:
        self.n = n
        self._lengths = (n - 1,) if one_level else tuple(range(n - 1, shortest - 1, -1))
        self._following: dict[tuple[int, ...], Counter[int]] = {}
        self._leading: dict[tuple[int, ...], int] = {}

    def _contexts(self, before: Sequence[int]) -> list[tuple[int, ...]]:
        """The longest first."""
        return [tuple(before[-k:]) for k in self._lengths if k <= len(before)]

    def note(self, before: Sequence[int], token: int) -> None:
        """Count a token behind the text `before`."""
        for context in self._contexts(before):
            known = self._following.setdefault(context, Counter())
            known[token] += 1
            if known[token] > known[self._leading.setdefault(context, token)]:
                self._leading[context] = token

    def note_text(self, text: Sequence[int]) -> None:
        """Count every token of a text behind what stands before it."""
        for end in range(1, len(text)):
            self.note(text[max(0, end - self.n + 1) : end], text[end])

    def known(self, before: Sequence[int]) -> dict[int, Counter[int]]:
        """How often each token followed the contexts that `before` ends in, by their length, the
        longest first; those that are not known are left out."""
        found = {len(one): self._following.get(one) for one in self._contexts(before)}
        return {length: counts for length, counts in found.items() if counts}

    def likeliest(self, before: Sequence[int]) -> tuple[int, int] | None:
        """(token, length) - what most often followed the longest context that is known, of equals
        the one that was so frequent first; or None."""
        for context in self._contexts(before):
            if context in self._leading:
                return self._leading[context], len(context)
        return None


def most_frequent(
    continuations: Iterable[Sequence[int]], size: int, width: int | None = None
) -> list[tuple[int, int]]:
    """The `size` most frequent prefixes of some continuations as a trie: (token, index of the
    parent, -1 for the root); at most `width` of each length, where that is given.

    Parents stand first; of equals the shorter, then the one seen first. For `a b` twice and `a c`
    once, and size 2: a, then b.
    """
    chosen: list[tuple[int, int]] = []
    on_level: Counter[int] = Counter()
    tickets = count()
    waiting: list[tuple[int, int, int, int, int, list[Sequence[int]]]] = []

    def offer(group: Iterable[Sequence[int]], index: int, depth: int) -> None:
        for token, further in _parted(group, depth).items():
            heapq.heappush(waiting, (-len(further), depth, next(tickets), token, index, further))

    offer(continuations, -1, 0)
    while waiting and len(chosen) < size:
        _, depth, _, token, parent, group = heapq.heappop(waiting)
        if width is not None and on_level[depth] == width:
            continue
        on_level[depth] += 1
        chosen.append((token, parent))
        offer(group, len(chosen) - 1, depth + 1)
    return chosen


def most_followed(continuations: Iterable[Sequence[int]]) -> list[int]:
    """Token by token the most frequent next token among the continuations that agree so far; on a
    tie the one seen first."""
    path: list[int] = []
    groups = _parted(continuations, 0)
    while groups:
        token = max(groups, key=lambda token: len(groups[token]))
        path.append(token)
        groups = _parted(groups[token], len(path))
    return path


def _parted(continuations: Iterable[Sequence[int]], depth: int) -> dict[int, list[Sequence[int]]]:
    """Groups the continuations that are longer than `depth` by their token there, in the order of
    their appearance."""
    parts: dict[int, list[Sequence[int]]] = {}
    for tokens in continuations:
        if len(tokens) > depth:
            token = tokens[depth]
            if token in parts:
                parts[token].append(tokens)
            else:
                parts[token] = [tokens]
    return parts
