"""The phrase pool: for each key token, the phrases that were seen to follow it.

A phrase is a tuple of N - 1 token ids (an n-gram is key and phrase). Each key keeps at most
`guess_set_size` of them, oldest first; a phrase seen again becomes the newest (Lookahead Decoding,
arXiv 2402.02057, section 3.2; Ouroboros, arXiv 2402.13720, section 3.2). Keys are bounded, too,
least recently fed first. A pool that outlives a call is the *warm start*: phrases learned in an
earlier run count as learned from history.

    pool = PhrasePool(ngram_size=3, guess_set_size=2)
    pool.insert(7, (8, 9), Learned.LOOKAHEAD, step=0)
    pool.newest(7, 5)     # [Phrase(tokens=(8, 9), learned=Learned.LOOKAHEAD, step=0)]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TreeBuilder

FORMAT = "ouroboros-phrase-pool"


@dataclass(frozen=True, slots=True)
class Phrase:
    """N - 1 tokens that follow a key, where they were first learned, and at which step of this run
    (None: an earlier run)."""

    tokens: tuple[int, ...]
    learned: Learned
    step: int | None


class PhrasePool:
    """Phrases by key token."""

    def __init__(
        self, ngram_size: int, guess_set_size: int, max_keys: int = 50_000, fingerprint: str = ""
    ) -> None:
        """fingerprint: of the tokenizer whose ids the phrases are made of, see
        `models.pairs.fingerprint`."""
        self.ngram_size = ngram_size
        self.guess_set_size = guess_set_size
        self.max_keys = max_keys
        self.fingerprint = fingerprint
        self.runs = 0
        """The number of runs that have learned in this pool."""
        self._phrases: dict[int, dict[tuple[int, ...], Phrase]] = {}

    def __len__(self) -> int:
        """Number of phrases."""
        return sum(map(len, self._phrases.values()))

    @property
    def keys(self) -> list[int]:
        return list(self._phrases)

    @property
    def largest_token(self) -> int:
        """The largest token id in any phrase or key; -1 if there is none."""
        tokens = (max(key, *map(max, known)) for key, known in self._phrases.items())
        return max(tokens, default=-1)

    def begin_run(self) -> None:
        """Mark everything in the pool as history."""
        self.runs += 1
        for known in self._phrases.values():
            for tokens in known:
                known[tokens] = Phrase(tokens, Learned.HISTORY, None)

    def insert(self, key: int, tokens: tuple[int, ...], learned: Learned, step: int | None) -> None:
        """Add a phrase as the newest of its key; a known one keeps its origin and becomes the
        newest."""
        if len(tokens) != self.ngram_size - 1:
            raise InvalidInput(
                f"a phrase of this pool has {self.ngram_size - 1} tokens, got {len(tokens)}"
            )
        known = self._phrases.pop(key, {})
        phrase = known.pop(tokens, None) or Phrase(tokens, learned, step)
        while len(known) >= self.guess_set_size:
            del known[next(iter(known))]
        known[tokens] = phrase
        self._phrases[key] = known
        if len(self._phrases) > self.max_keys:
            del self._phrases[next(iter(self._phrases))]

    def replace(
        self, key: int, old: tuple[int, ...], new: tuple[int, ...], learned: Learned, step: int
    ) -> None:
        """Replace `old` by a corrected phrase; where `new` is known already, `old` is only
        forgotten."""
        known = self._phrases.get(key, {})
        if old == new or old not in known:
            return
        if new in known:
            del known[old]
            return
        fresh = Phrase(new, learned, step)
        self._phrases[key] = {
            fresh.tokens if t == old else t: fresh if t == old else p for t, p in known.items()
        }

    def newest(self, key: int, count: int) -> list[Phrase]:
        """Up to `count` phrases of a key, the newest first."""
        known = self._phrases.get(key)
        return list(islice(reversed(known.values()), count)) if known else []

    def hang(
        self, builder: TreeBuilder, parent: int, count: int, source: Source
    ) -> list[tuple[tuple[int, ...], list[int]]]:
        """Hang up to `count` phrases of a node's token below it, the newest first; each phrase with
        its nodes."""
        hung = []
        for rank, phrase in enumerate(self.newest(builder.token(parent), count)):
            origin = Provenance(source, phrase.learned, phrase.step, rank=rank)
            hung.append((phrase.tokens, builder.add_path(phrase.tokens, parent, origin)))
        return hung

    def learn_text(self, tokens: Sequence[int], learned: Learned, step: int | None = None) -> None:
        """Add every n-gram of a text: of the prompt, or of what was written at a step."""
        size = self.ngram_size
        for start in range(len(tokens) - size + 1):
            self.insert(tokens[start], tuple(tokens[start + 1 : start + size]), learned, step)

    def learn_written(self, before: Sequence[int], emitted: Sequence[int], step: int) -> None:
        """Add every n-gram that ends in one of the tokens which a step emitted behind the text
        `before`."""
        self.learn_text((*before[1 - self.ngram_size :], *emitted), Learned.TEXT, step)

    def to_json(self) -> str:
        """The pool as JSON: sizes, tokenizer fingerprint, and the phrases by key, oldest first."""
        phrases = [
            [key, [list(tokens) for tokens in known]] for key, known in self._phrases.items()
        ]
        sizes = {
            "ngram_size": self.ngram_size,
            "guess_set_size": self.guess_set_size,
            "max_keys": self.max_keys,
            "runs": self.runs,
        }
        return json.dumps(
            {
                "format": FORMAT,
                "version": 1,
                **sizes,
                "fingerprint": self.fingerprint,
                "phrases": phrases,
            }
        )

    @classmethod
    def from_json(cls, text: str, fingerprint: str | None = None) -> PhrasePool:
        """The pool that `to_json` wrote; refuses another tokenizer's where `fingerprint` is
        given."""
        try:
            data: Any = json.loads(text)
            if data["format"] != FORMAT or data["version"] != 1:
                raise ValueError("not a phrase pool of version 1")
            if min(int(data[size]) for size in ("ngram_size", "guess_set_size", "max_keys")) < 1:
                raise ValueError("its sizes must be at least 1")
            pool = cls(
                int(data["ngram_size"]),
                int(data["guess_set_size"]),
                int(data["max_keys"]),
                str(data["fingerprint"]),
            )
            pool.runs = int(data.get("runs", 0))
            for key, known in data["phrases"]:
                for tokens in known:
                    pool.insert(int(key), tuple(int(t) for t in tokens), Learned.HISTORY, None)
            if pool.largest_token >= 2**31 or any(key < 0 for key in pool.keys):
                raise ValueError("its token ids are out of range")
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"this is not a phrase pool written by to_json: {error}") from None
        if fingerprint is not None and pool.fingerprint != fingerprint:
            raise InvalidInput(
                "the phrase pool was made with another tokenizer (fingerprint "
                f"{pool.fingerprint or 'none'}, expected "
                f"{fingerprint}): its token ids mean other words here. Start a new pool for this "
                "pair."
            )
        return pool

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        scratch = path.with_name(path.name + ".tmp")
        scratch.write_text(self.to_json())
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path, fingerprint: str | None = None) -> PhrasePool:
        try:
            text = path.read_text()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not a phrase pool: {error}") from None
        return cls.from_json(text, fingerprint)


def open_pool(
    warm: PhrasePool | None, ngram_size: int, guess_set_size: int, prompt: Sequence[int]
) -> PhrasePool:
    """The pool of a run: the one given for a warm start, or a new one; the n-grams of `prompt` go
    in first.

    Raises InvalidInput if the one given holds n-grams of another size.
    """
    pool = PhrasePool(ngram_size, guess_set_size) if warm is None else warm
    if pool.ngram_size != ngram_size:
        raise InvalidInput(
            f"the phrase pool holds n-grams of {pool.ngram_size} tokens, but ngram_size is "
            f"{ngram_size}: "
            f"set ngram_size to {pool.ngram_size} or start a new pool"
        )
    pool.guess_set_size = guess_set_size
    pool.begin_run()
    pool.learn_text(prompt, Learned.PROMPT)
    return pool
