"""The n-gram tables of llama.cpp (`docs/speculative.md` there), built from their descriptions.

Each table reads a growing text and says what may follow its end. They differ in what they store
for an n-gram: nothing but its newest place, a place with the acceptance of the last draft from it,
up to four continuations with counts, the next token alone, or counts of the next tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

NGram = tuple[int, ...]
VALUES = 4
"""Continuations that `Dominant` keeps for a key."""
DOMINANCE = 3
"""How many times as often as all others together one of them must have been seen."""
WEAK_DRAFTS, WEAK_SHARE = 5, 0.25
"""`Rolling` forgets everything after so many drafts in a row with a smaller share accepted."""
MOST_ENTRIES = 1 << 16
"""N-grams that `Rolling` keeps; then it begins anew."""


@dataclass(frozen=True)
class Found:
    """Tokens that may follow, and how many tokens before them matched.

    position  in the counted text of the first token, if all are one copy
    """

    tokens: Sequence[int] = ()
    match: int = 0
    position: int | None = None


class NgramTable(ABC):
    """A table over the tokens added so far; keys have `n` tokens, drafts at most `m`."""

    def __init__(self, n: int, m: int) -> None:
        self.n, self.m = n, m
        self.tokens: list[int] = []

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens at the end of the text."""
        for token in tokens:
            self._note(token)
            self.tokens.append(token)

    def _key(self) -> NGram:
        """Return the last n tokens; fewer at the beginning of the text."""
        return tuple(self.tokens[-self.n :])

    @abstractmethod
    def _note(self, token: int) -> None:
        """Note the next token before it is added."""

    @abstractmethod
    def draft(self) -> Found:
        """Return what may follow the text."""

    def begin(self) -> None:  # noqa: B027
        """Begin a new text: what was heard of drafts in earlier ones is forgotten, so that a table
        that is kept drafts what a new one over the same texts does."""

    def accepted(self, checked: int, accepted: int) -> None:  # noqa: B027
        """Hear how many tokens of the last draft were checked and accepted."""


class Newest(NgramTable):
    """`simple`: copy from the newest place after the same n tokens, with n more behind."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self._places: dict[NGram, list[int]] = {}

    def _note(self, token: int) -> None:
        if len(self.tokens) >= self.n:
            self._places.setdefault(self._key(), []).append(len(self.tokens))

    def draft(self) -> Found:
        places = reversed(self._places.get(self._key(), ()))
        place = next(
            (position for position in places if len(self.tokens) - position >= self.n), None
        )
        if place is None:
            return Found()
        return Found(self.tokens[place : place + self.m], self.n, place)


@dataclass
class Entry:
    """place: behind the newest occurrence; hits: occurrences."""

    place: int
    hits: int


class Remembering(NgramTable):
    """`map-k`: like `Newest` with a memory of acceptance for each key.

    A draft is at most one token longer than what was accepted of the last one from the same key,
    and all m tokens again after it was accepted whole.
    """

    def __init__(self, n: int, m: int, min_hits: int = 1) -> None:
        super().__init__(n, m)
        self.min_hits = min_hits
        self._entries: dict[NGram, Entry] = {}
        self._limits: dict[NGram, int] = {}
        """Tokens of the next draft from a key, if not all m."""
        self._drafted: NGram | None = None

    def begin(self) -> None:
        self._limits.clear()

    def _note(self, token: int) -> None:
        if len(self.tokens) < self.n:
            return
        entry = self._entries.setdefault(self._key(), Entry(0, 0))
        entry.place, entry.hits = len(self.tokens), entry.hits + 1

    def draft(self) -> Found:
        key = self._key()
        entry, self._drafted = self._entries.get(key), None
        if entry is None or entry.hits < self.min_hits:
            return Found()
        self._drafted = key
        end = entry.place + self._limits.get(key, self.m)
        return Found(self.tokens[entry.place : end], self.n, entry.place)

    def accepted(self, checked: int, accepted: int) -> None:
        if self._drafted is not None and checked:
            self._limits[self._drafted] = self.m if accepted == checked else accepted + 1


class Dominant(NgramTable):
    """`map-k4v`: up to four continuations of m tokens for each key, with counts.

    A continuation is drafted if it was seen at least three times as often as all others together.
    A fifth one takes the place of the rarest, of equals the oldest.
    """

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self._values: dict[NGram, dict[NGram, int]] = {}

    def _note(self, token: int) -> None:
        """Note the continuation that this token completes."""
        start = len(self.tokens) + 1 - self.m
        if start < self.n:
            return
        values = self._values.setdefault(tuple(self.tokens[start - self.n : start]), {})
        value = (*self.tokens[start:], token)
        if value not in values and len(values) == VALUES:
            del values[min(values, key=values.__getitem__)]
        values[value] = values.get(value, 0) + 1

    def draft(self) -> Found:
        values = self._values.get(self._key(), {})
        if not values:
            return Found()
        value = max(values, key=values.__getitem__)
        if values[value] < DOMINANCE * (sum(values.values()) - values[value]):
            return Found()
        return Found(value, self.n)


class Rolling(NgramTable):
    """`mod`: the token that followed each n-gram last, rolled on through the draft itself.

    A draft ends where a text ends. One of fewer than `shortest` tokens is not made.
    """

    def __init__(self, n: int, m: int, shortest: int) -> None:
        super().__init__(n, m)
        self.shortest = shortest
        self._following: dict[NGram, int] = {}
        self._shares: deque[float] = deque(maxlen=WEAK_DRAFTS)
        self._emptied = False

    def begin(self) -> None:
        self._shares.clear()
        if self._emptied:
            self._emptied, tokens, self.tokens = False, self.tokens, []
            self._following.clear()
            self.extend(tokens)

    def _note(self, token: int) -> None:
        if len(self.tokens) < self.n:
            return
        if len(self._following) == MOST_ENTRIES:
            self._following.clear()
        self._following[self._key()] = token

    def draft(self) -> Found:
        window, tokens = self._key(), list[int]()
        while len(tokens) < self.m and (token := self._following.get(window, -1)) >= 0:
            tokens.append(token)
            window = (*window[1:], token)
        return Found(tokens, self.n) if len(tokens) >= self.shortest else Found()

    def accepted(self, checked: int, accepted: int) -> None:
        if checked:
            self._shares.append(accepted / checked)
        if len(self._shares) == WEAK_DRAFTS and max(self._shares) < WEAK_SHARE:
            self._following.clear()
            self._shares.clear()
            self._emptied = True


@dataclass(frozen=True)
class Threshold:
    """For n-grams of one token, two, three, four: how often seen, and the least share."""

    seen: tuple[int, ...]
    share: tuple[float, ...]


LAX = Threshold((2, 2, 1, 1), (0.66, 0.50, 0.50, 0.50))
"""For counts of the text itself."""
STRICT = Threshold((4, 3, 2, 2), (0.75, 0.66, 0.66, 0.66))
"""For counts of earlier texts."""


@dataclass
class NextTokens:
    """Counts of the next token after every n-gram of one to four tokens."""

    tokens: list[int] = field(default_factory=list)
    _counts: dict[NGram, Counter[int]] = field(default_factory=dict)

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens; a negative one separates two texts and is never counted."""
        for token in tokens:
            before = self.tokens[-len(LAX.seen) :]
            for size in range(1, len(before) + 1):
                key = tuple(before[-size:])
                if token >= 0 and min(key) >= 0:
                    self._counts.setdefault(key, Counter())[token] += 1
            self.tokens.append(token)

    def passing(self, last: Sequence[int], threshold: Threshold) -> tuple[int, int] | None:
        """Return (token, n) for the longest n-gram whose most frequent next token passes."""
        for size in range(min(len(last), len(threshold.seen)), 0, -1):
            counts = self._counts.get(tuple(last[-size:]))
            if counts:
                token, times = counts.most_common(1)[0]
                share = times / counts.total()
                if times >= threshold.seen[size - 1] and share >= threshold.share[size - 1]:
                    return token, size
        return None


class Validated(NgramTable):
    """`cache`: the most frequent next token, if it was seen often enough, token by token.

    Counts of the text itself come first and pass easily, then those of `earlier` texts.
    """

    def __init__(self, m: int, earlier: NextTokens | None = None) -> None:
        super().__init__(len(LAX.seen), m)
        self._text = NextTokens()
        self._earlier = earlier or NextTokens()

    def _note(self, token: int) -> None:
        self._text.extend((token,))

    def draft(self) -> Found:
        window, tokens, match = list(self._key()), list[int](), 0
        while len(tokens) < self.m:
            passing = self._text.passing(window, LAX) or self._earlier.passing(window, STRICT)
            if passing is None:
                break
            match = match or passing[1]
            tokens.append(passing[0])
            window = [*window[1 - self.n :], passing[0]]
        return Found(tokens, match)
