"""The texts of a session, one behind the other: what is copied from where a method is warm."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Protocol, Self, TypeVar

from ouroboros_core.lookup.memory import Memory
from ouroboros_core.lookup.ngrams import copied

MOST_TOKENS = 16_384
"""Of all earlier texts together. Where there are more, the oldest texts are forgotten until half of
it is left, so that this is seldom done."""


class Index(Protocol):
    """What finds occurrences in a growing text, such as a suffix automaton."""

    tokens: list[int]

    def extend(self, tokens: Iterable[int]) -> Any:
        """More of the text."""
        ...


IndexT = TypeVar("IndexT", bound=Index)


class SessionText(Memory):
    """Earlier texts, the oldest first, and the present one. Between two of them stands a negative
    number that occurs nowhere else, so that no match reaches over an end.

    A new one is a text without any earlier one: a cold run.
    """

    FORMAT = "ouroboros-session-text"
    holds = "session text"

    def __init__(self, fingerprint: str = "", most_tokens: int = MOST_TOKENS) -> None:
        super().__init__(fingerprint)
        self.most_tokens = most_tokens
        self.tokens: list[int] = []
        self.begins = 0
        """Where the present text begins."""
        self._indexes: dict[Hashable, Index] = {}

    def begin_run(self, prompt: Sequence[int]) -> None:
        """A text begins; the one before is an earlier one now."""
        self.runs += 1
        self._forget()
        if self.tokens:
            self.tokens.append(-self.runs)
        self.begins = len(self.tokens)
        self.follow(prompt)

    def _forget(self) -> None:
        """Keep the newest whole texts of half the largest size, once there is more than that."""
        if len(self.tokens) <= self.most_tokens:
            return
        texts, kept = self.texts, 0
        while texts and kept + len(texts[-1]) <= self.most_tokens // 2:
            kept += len(texts.pop())
        whole = self.texts[len(texts) :]
        self.tokens, self._indexes = [], {}
        self._join(whole)

    def _join(self, texts: Iterable[Sequence[int]]) -> None:
        """The texts in a row; the numbers between them are those of runs that are over."""
        for number, text in enumerate(texts):
            self.tokens += [-number, *text] if number else text

    @property
    def texts(self) -> list[list[int]]:
        """All texts, the oldest first."""
        found: list[list[int]] = [[]]
        for token in self.tokens:
            if token < 0:
                found.append([])
            else:
                found[-1].append(token)
        return [text for text in found if text]

    def follow(self, text: Sequence[int]) -> None:
        """The present text is as long as this by now."""
        self.tokens.extend(text[len(self.tokens) - self.begins :])

    def index(self, name: Hashable, new: Callable[[], IndexT]) -> IndexT:
        """The index of that name over all texts, brought up to date; a `new` one where there is
        none yet."""
        found: Any = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = new()
        found.extend(self.tokens[len(found.tokens) :])
        made: IndexT = found
        return made

    def copied(self, end: int, length: int) -> list[tuple[int | None, int]]:
        """(position in the present text, token): what stands from `end` on. Of the present text
        `length` tokens, as in `ngrams.copied`; of an earlier one at most as many, to its end, and
        without a position."""
        if end >= self.begins:
            return [(n - self.begins, token) for n, token in copied(self.tokens, end, length)]
        following = self.tokens[end : end + length]
        return [(None, token) for token in takewhile(lambda token: token >= 0, following)]

    def __getstate__(self) -> dict[str, Any]:
        """Without the indexes, which are made anew."""
        return {**vars(self), "_indexes": {}}

    def token_ids(self) -> Iterable[int]:
        return (token for text in self.texts for token in text)

    def content(self) -> dict[str, Any]:
        return {"most_tokens": self.most_tokens, "texts": self.texts}

    @classmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        most = int(data["most_tokens"])
        if not 1 <= most <= MOST_TOKENS:
            raise ValueError(f"most_tokens must be between 1 and {MOST_TOKENS}, got {most}")
        memory = cls(most_tokens=most)
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
