"""The texts of a session in a row, from which a warm method copies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Protocol, Self, TypeVar, cast

from ouroboros_core.lookup.memory import Memory
from ouroboros_core.lookup.ngrams import copied

MOST_TOKENS = 16_384
"""Most tokens of earlier texts; beyond it the oldest go until half of it is left."""


class Index(Protocol):
    """A structure that finds occurrences in a growing text, such as a suffix automaton."""

    tokens: list[int]

    def extend(self, tokens: Iterable[int]) -> Any:
        """Add tokens of the text."""
        ...


IndexT = TypeVar("IndexT", bound=Index)


class SessionText(Memory):
    """Earlier texts, the oldest first, and the present one.

    A unique negative number separates two texts, so that no match crosses an end. A new
    SessionText has no earlier texts: a cold run.
    """

    FORMAT = "ouroboros-session-text"
    holds = "session text"

    def __init__(self, fingerprint: str = "", most_tokens: int = MOST_TOKENS) -> None:
        super().__init__(fingerprint)
        self.most_tokens = most_tokens
        self.tokens: list[int] = []
        self.begins = 0
        """Position where the present text begins."""
        self._indexes: dict[str, tuple[Hashable, Index]] = {}

    def begin_run(self, prompt: Sequence[int]) -> None:
        """Begin a new text after the present one."""
        self.runs += 1
        self._forget()
        if self.tokens:
            self.tokens.append(-self.runs)
        self.begins = len(self.tokens)
        self.follow(prompt)

    def _forget(self) -> None:
        """Beyond the largest size, keep only the newest whole texts of half that size."""
        if len(self.tokens) <= self.most_tokens:
            return
        older, size = self.texts, 0
        while older and size + len(older[-1]) <= self.most_tokens // 2:
            size += len(older.pop())
        newest = self.texts[len(older) :]
        self.tokens, self._indexes = [], {}
        self._join(newest)

    def _join(self, texts: Iterable[Sequence[int]]) -> None:
        """Append the texts in a row, separated by the negative numbers of finished runs."""
        for number, text in enumerate(texts):
            self.tokens += [-number, *text] if number else text

    @property
    def texts(self) -> list[list[int]]:
        texts: list[list[int]] = [[]]
        for token in self.tokens:
            if token < 0:
                texts.append([])
            else:
                texts[-1].append(token)
        return [text for text in texts if text]

    def follow(self, text: Sequence[int]) -> None:
        """Add the tokens of the present text that are new."""
        self.tokens.extend(text[len(self.tokens) - self.begins :])

    def index(self, name: str, new: Callable[[], IndexT], settings: Hashable = ()) -> IndexT:
        """Return the up-to-date index of that name, a `new` one at first and for other settings
        than before: of each name one is kept."""
        before, index = self._indexes.get(name, ((), None))
        if index is None or before != settings:
            index = new()
        self._indexes[name] = settings, index
        index.extend(self.tokens[len(index.tokens) :])
        return cast(IndexT, index)

    def copied(self, end: int, length: int) -> list[tuple[int | None, int]]:
        """Return (position in the present text, token) of the tokens from `end` on.

        In the present text they are `length` tokens, as in `ngrams.copied`. In an earlier text they
        are at most `length` tokens, up to its end, without a position.
        """
        if end >= self.begins:
            return [(n - self.begins, token) for n, token in copied(self.tokens, end, length)]
        following = self.tokens[end : end + length]
        return [(None, token) for token in takewhile(lambda token: token >= 0, following)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the indexes, which can be rebuilt."""
        return {**vars(self), "_indexes": {}}

    def token_ids(self) -> Iterable[int]:
        return (token for text in self.texts for token in text)

    def content(self) -> dict[str, Any]:
        return {"most_tokens": self.most_tokens, "texts": self.texts}

    @classmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        most_tokens = int(data["most_tokens"])
        if not 1 <= most_tokens <= MOST_TOKENS:
            raise ValueError(f"most_tokens must be between 1 and {MOST_TOKENS}, got {most_tokens}")
        memory = cls(most_tokens=most_tokens)
        texts = [[int(token) for token in text] for text in data["texts"]]
        if any(token < 0 for text in texts for token in text):
            raise ValueError("its token ids are out of range")
        memory._join(text for text in texts if text)
        memory._forget()
        memory.runs = len(texts)
        return memory


class Answers(SessionText):
    """The answers of earlier runs, without their prompts."""

    FORMAT = "ouroboros-answers"
    holds = "memory of earlier answers"
