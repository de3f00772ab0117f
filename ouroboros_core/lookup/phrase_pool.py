"""The phrase pool: for each key token, the phrases that followed it.

A phrase is a tuple of N - 1 token ids; an n-gram is key and phrase. Each key keeps at most
`guess_set_size` phrases and drops the oldest first; a phrase seen again becomes the newest
(Lookahead Decoding, arXiv 2402.02057, section 3.2; Ouroboros, arXiv 2402.13720, section 3.2). The
number of keys is also bounded: the key that was updated least recently is dropped. A pool that
outlives a call is the *warm start*: phrases of an earlier run count as learned from history.

    pool = PhrasePool(ngram_size=3, guess_set_size=2)
    pool.insert(7, (8, 9), Learned.LOOKAHEAD, step=0)
    pool.newest(7, 5)     # [Phrase(tokens=(8, 9), learned=Learned.LOOKAHEAD, step=0)]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TreeBuilder

LARGEST = {"ngram_size": 64, "guess_set_size": 1024, "max_keys": 1_000_000}
"""Largest sizes that a file may have."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """N - 1 tokens after a key, their origin, and the step of this run if it is of this run."""

    tokens: tuple[int, ...]
    learned: Learned
    step: int | None


class PhrasePool(Memory):
    """Phrases by key token."""

    FORMAT = "ouroboros-phrase-pool"
    holds = "phrase pool"

    def __init__(
        self, ngram_size: int, guess_set_size: int, max_keys: int = 50_000, fingerprint: str = ""
    ) -> None:
        super().__init__(fingerprint)
        self.ngram_size = ngram_size
        self.guess_set_size = guess_set_size
        self.max_keys = max_keys
        self._phrases: dict[int, dict[tuple[int, ...], Phrase]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Number of phrases."""
        return self._count

    @property
    def keys(self) -> list[int]:
        return list(self._phrases)

    @property
    def shape(self) -> Hashable:
        return self.ngram_size

    def begin_run(self) -> None:
        """Mark everything in the pool as history."""
        self.runs += 1
        for phrases in self._phrases.values():
            for tokens in phrases:
                phrases[tokens] = Phrase(tokens, Learned.HISTORY, None)

    def insert(self, key: int, tokens: tuple[int, ...], learned: Learned, step: int | None) -> None:
        """Add a phrase as the newest of its key; a known one keeps its origin."""
        if len(tokens) != self.ngram_size - 1:
            raise InvalidInput(
                f"a phrase of this pool has {self.ngram_size - 1} tokens, got {len(tokens)}"
            )
        phrases = self._phrases.pop(key, {})
        before = len(phrases)
        phrase = phrases.pop(tokens, None) or Phrase(tokens, learned, step)
        while len(phrases) >= self.guess_set_size:
            del phrases[next(iter(phrases))]
        phrases[tokens] = phrase
        self._phrases[key] = phrases
        self._count += len(phrases) - before
        if len(self._phrases) > self.max_keys:
            self._count -= len(self._phrases.pop(next(iter(self._phrases))))

    def replace(
        self, key: int, old: tuple[int, ...], new: tuple[int, ...], learned: Learned, step: int
    ) -> None:
        """Replace `old` by a corrected phrase, or only remove it if the key already has `new`."""
        phrases = self._phrases.get(key, {})
        if old == new or old not in phrases:
            return
        if new in phrases:
            del phrases[old]
            self._count -= 1
            return
        fresh = Phrase(new, learned, step)
        self._phrases[key] = {
            fresh.tokens if t == old else t: fresh if t == old else p for t, p in phrases.items()
        }

    def newest(self, key: int, count: int) -> list[Phrase]:
        """Return up to `count` phrases of a key, the newest first."""
        phrases = self._phrases.get(key)
        return list(islice(reversed(phrases.values()), count)) if phrases else []

    def attach(
        self, builder: TreeBuilder, parent: int, count: int, source: Source
    ) -> list[tuple[tuple[int, ...], list[int]]]:
        """Add the newest phrases of a node's token below it; return each with its nodes."""
        attached = []
        for rank, phrase in enumerate(self.newest(builder.token(parent), count)):
            origin = Provenance(source, phrase.learned, phrase.step, rank=rank)
            attached.append((phrase.tokens, builder.add_path(phrase.tokens, parent, origin)))
        return attached

    def learn_text(self, tokens: Sequence[int], learned: Learned, step: int | None = None) -> None:
        """Add every n-gram of a text: the prompt, or the text written at a step."""
        size = self.ngram_size
        for start in range(len(tokens) - size + 1):
            self.insert(tokens[start], tuple(tokens[start + 1 : start + size]), learned, step)

    def learn_written(self, before: Sequence[int], emitted: Sequence[int], step: int) -> None:
        """Add every n-gram that ends in a token that a step emitted after the text `before`."""
        self.learn_text((*before[1 - self.ngram_size :], *emitted), Learned.TEXT, step)

    def token_ids(self) -> Iterable[int]:
        phrases = chain.from_iterable(self._phrases.values())
        return chain(self._phrases, chain.from_iterable(phrases))

    def content(self) -> dict[str, Any]:
        """Return sizes, and the phrases by key, the oldest first."""
        by_key = [
            [key, [list(tokens) for tokens in phrases]] for key, phrases in self._phrases.items()
        ]
        sizes = {name: getattr(self, name) for name in LARGEST}
        return {**sizes, "phrases": by_key}

    @classmethod
    def of_content(cls, data: Mapping[str, Any]) -> Self:
        sizes = {name: int(data[name]) for name in LARGEST}
        for name, size in sizes.items():
            if not 1 <= size <= LARGEST[name]:
                raise ValueError(f"{name} must be between 1 and {LARGEST[name]}, got {size}")
        pool = cls(sizes["ngram_size"], sizes["guess_set_size"], sizes["max_keys"])
        for key, phrases in data["phrases"]:
            for tokens in phrases:
                pool.insert(int(key), tuple(int(t) for t in tokens), Learned.HISTORY, None)
        return pool


def open_pool(
    warm: PhrasePool | None, ngram_size: int, guess_set_size: int, prompt: Sequence[int]
) -> PhrasePool:
    """Return the pool of a run, `warm` or a new one, with the n-grams of `prompt` added.

    Raises InvalidInput if `warm` holds n-grams of another size.
    """
    pool = PhrasePool(ngram_size, guess_set_size) if warm is None else warm
    if pool.ngram_size != ngram_size:
        raise InvalidInput(
            f"the phrase pool holds n-grams of {pool.ngram_size} tokens, but ngram_size is "
            f"{ngram_size}: set ngram_size to {pool.ngram_size} or start a new pool"
        )
    pool.guess_set_size = guess_set_size
    pool.begin_run()
    pool.learn_text(prompt, Learned.PROMPT)
    return pool
