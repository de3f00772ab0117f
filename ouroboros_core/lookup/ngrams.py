"""N-grams of a growing text: their occurrences and the counts of the tokens after them; and tries
of frequent continuations."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, islice


class Occurrences:
    """End positions of all n-grams up to `longest`; a token takes constant time."""

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
        """Return (length, end) of earlier occurrences of the text's last tokens, the longest n-gram
        first and the newest first on a tie.

        `end` is the position of the token that followed the occurrence.
        """
        lengths: dict[int, int] = {}
        for n in range(min(self.longest, len(self.tokens) - 1), shortest - 1, -1):
            for end in islice(reversed(self._ends[tuple(self.tokens[-n:])]), 1, None):
                if len(lengths) == at_most:
                    break
                lengths.setdefault(end, n)
        return [(n, end) for end, n in lengths.items()]

    def first(self, last: Sequence[int]) -> tuple[int, int] | None:
        """Return (length, end) of the first occurrence of the longest n-gram that ends `last` and
        that a token of the text follows, or None. `last` may be any sequence of tokens."""
        for n in range(min(self.longest, len(last)), 0, -1):
            ends = self._ends.get(tuple(last[-n:]))
            if ends and ends[0] < len(self.tokens):
                return n, ends[0]
        return None

    def first_full(self, shortest: int, following: int) -> list[tuple[int, int]]:
        """Return (length, end) of the first occurrence of the text's last tokens that at least
        `following` tokens follow, trying the longest n-gram first. The list has at most one
        element."""
        for n in range(min(self.longest, len(self.tokens) - 1), shortest - 1, -1):
            for end in self._ends[tuple(self.tokens[-n:])]:
                if end + following <= len(self.tokens):
                    return [(n, end)]
        return []


def copied(text: Sequence[int], end: int, length: int) -> list[tuple[int, int]]:
    """Return (position, token) of `length` tokens of a text from `end` on.

    At the end of the text the copy continues with the tokens that it has just copied: for
    `a b a b a`, end 2 and length 5 it takes positions 2, 3, 4, then 2 and 3 again.
    """
    return [(n, text[n]) for n in (end + k % (len(text) - end) for k in range(length))]


class Counts:
    """Counts of the tokens after contexts of `shortest` (or `one_level`) to n - 1 tokens."""

    def __init__(self, n: int, one_level: bool = False, shortest: int = 1) -> None:
        self.n = n
        self._lengths = (n - 1,) if one_level else tuple(range(n - 1, shortest - 1, -1))
        self._following: dict[tuple[int, ...], Counter[int]] = {}
        self._leading: dict[tuple[int, ...], int] = {}

    def _contexts(self, before: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the contexts that end `before`, the longest first."""
        return [tuple(before[-k:]) for k in self._lengths if k <= len(before)]

    def note(self, before: Sequence[int], token: int) -> None:
        """Count a token after the text `before`."""
        for context in self._contexts(before):
            counts = self._following.setdefault(context, Counter())
            counts[token] += 1
            if counts[token] > counts[self._leading.setdefault(context, token)]:
                self._leading[context] = token

    def note_text(self, text: Sequence[int]) -> None:
        """Count every token of a text after the tokens before it."""
        for end in range(1, len(text)):
            self.note(text[max(0, end - self.n + 1) : end], text[end])

    def by_length(self, before: Sequence[int]) -> dict[int, Counter[int]]:
        """Return the counts after each context that ends `before`, by its length, the longest
        first. Contexts without counts are left out."""
        counts = {len(context): self._following.get(context) for context in self._contexts(before)}
        return {length: tokens for length, tokens in counts.items() if tokens}

    def likeliest(self, before: Sequence[int]) -> tuple[int, int] | None:
        """Return the token that most often followed the longest known context, with the context's
        length; or None. On a tie it is the token that reached the count first."""
        for context in self._contexts(before):
            if context in self._leading:
                return self._leading[context], len(context)
        return None


def most_frequent(
    continuations: Iterable[Sequence[int]], size: int, width: int | None = None
) -> list[tuple[int, int]]:
    """Return the `size` most frequent prefixes of some continuations as a trie: (token, index of
    the parent, -1 for the root), with at most `width` prefixes of each length if it is given.

    Parents come first. On a tie the shorter prefix comes first, then the one seen first. For `a b`
    twice and `a c` once, and size 2: a, then b.
    """
    chosen: list[tuple[int, int]] = []
    on_level: Counter[int] = Counter()
    tickets = count()
    waiting: list[tuple[int, int, int, int, int, list[Sequence[int]]]] = []

    def offer(group: Iterable[Sequence[int]], index: int, depth: int) -> None:
        for token, further in _grouped(group, depth).items():
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
    """Return a path: token by token the most frequent next token among the continuations that agree
    with the path; on a tie the one seen first."""
    path: list[int] = []
    groups = _grouped(continuations, 0)
    while groups:
        token = max(groups, key=lambda token: len(groups[token]))
        path.append(token)
        groups = _grouped(groups[token], len(path))
    return path


def _grouped(continuations: Iterable[Sequence[int]], depth: int) -> dict[int, list[Sequence[int]]]:
    """Group longer continuations by their token at `depth`, in order of appearance."""
    groups: dict[int, list[Sequence[int]]] = {}
    for tokens in continuations:
        if len(tokens) > depth:
            token = tokens[depth]
            if token in groups:
                groups[token].append(tokens)
            else:
                groups[token] = [tokens]
    return groups
