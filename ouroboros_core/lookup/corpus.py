"""An indexed corpus of token ids: finds where the end of a text occurs and what follows.

A suffix array (Manber and Myers 1993), sorted by the first `DEPTH` tokens of every suffix;
documents are kept apart. It answers what a static suffix automaton answers (SAM-Decoding, arXiv
2411.10666, section 3.1: the longest suffix of the text that occurs) and what REST asks (arXiv
2311.08252, section 3.2: everything that followed it), in twelve bytes a token, as plain arrays.
"""

from __future__ import annotations

import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ouroboros_core.errors import InvalidInput

Ids = npt.NDArray[np.int32]

DEPTH = 64
"""Suffixes are sorted by this many tokens; no match is longer."""

END = -1
"""Separator after each document."""

_BYTES = 4
"""Of a token in the searched form: big-endian, so that comparing bytes compares tokens."""


@dataclass(frozen=True)
class Found:
    """Where the last `length` tokens of a text occur: rows first to stop - 1 of the suffix
    array."""

    length: int
    first: int
    stop: int


class Corpus:
    """Documents, searchable by what they contain. `longest` finds the end of a text,
    `continuations` what followed."""

    def __init__(self, tokens: Ids, order: Ids, fingerprint: str, name: str = "corpus") -> None:
        """tokens: documents with END behind each; order: the suffix array over them; fingerprint:
        of the tokenizer."""
        self.tokens, self.order, self.fingerprint, self.name = tokens, order, fingerprint, name
        self._text = (tokens + 1).astype(">u4").tobytes()
        self._starts = memoryview(np.ascontiguousarray(order).data)  # its items are plain numbers

    @classmethod
    def build(cls, documents: Sequence[Sequence[int]], fingerprint: str = "") -> Corpus:
        """Index documents of token ids; raises InvalidInput if they are empty."""
        parts = [
            np.array([*document, END], dtype=np.int32) for document in documents if len(document)
        ]
        if not parts:
            raise InvalidInput("the corpus is empty: there is no document with a token in it")
        tokens = np.concatenate(parts)
        return cls(tokens, _suffix_array(tokens), fingerprint)

    def save(self, path: Path) -> None:
        """Write an .npz file of arrays, atomically."""
        scratch = path.with_name(path.name + ".tmp")
        with scratch.open("wb") as file:
            np.savez_compressed(
                file, tokens=self.tokens, order=self.order, fingerprint=np.array(self.fingerprint)
            )
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path, fingerprint: str | None = None) -> Corpus:
        """The corpus that `save` wrote.

        Raises InvalidInput for another file and, where `fingerprint` is given, for another
        tokenizer's.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                tokens = file["tokens"]
                order = file["order"]
                mine = str(file["fingerprint"])
        except FileNotFoundError:
            raise InvalidInput(
                f"there is no corpus {path}: make one with sam build FILES --out {path}"
            ) from None
        except (
            OSError,
            ValueError,
            KeyError,
            EOFError,
            TypeError,
            AttributeError,
            zipfile.BadZipFile,
        ):
            raise InvalidInput(
                f"{path} is not a corpus: make one with sam build FILES --out corpus.npz"
            ) from None
        if not _fit(tokens, order):
            raise InvalidInput(
                f"{path} is damaged: its tokens and their order do not fit each other; build it "
                "again"
            )
        if fingerprint is not None and mine != fingerprint:
            raise InvalidInput(
                f"the corpus {path} was made with another tokenizer (fingerprint {mine or 'none'}, "
                f"expected {fingerprint}): "
                "its token ids mean other words here. Build it with this target: sam build FILES "
                "--target ... --out ..."
            )
        return cls(tokens.astype(np.int32), order.astype(np.int32), mine, path.stem)

    def __len__(self) -> int:
        """Tokens, ends of documents included."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """No match is longer."""
        return DEPTH

    @property
    def documents(self) -> int:
        return int((self.tokens == END).sum())

    @property
    def largest_token(self) -> int:
        return int(self.tokens.max())

    @property
    def megabytes(self) -> float:
        """Memory use in units of 10^6 bytes."""
        return (self.tokens.nbytes + self.order.nbytes + len(self._text)) / 1e6

    def find(self, pattern: Sequence[int]) -> Found | None:
        """Where a pattern (its last DEPTH tokens, if it is longer) occurs; None if nowhere."""
        wanted = (np.array(pattern[-DEPTH:], dtype=np.int64) + 1).astype(">u4").tobytes()
        text, size = self._text, len(wanted)

        def key(position: int) -> bytes:
            start = _BYTES * position
            return text[start : start + size]

        first = bisect_left(self._starts, wanted, key=key)
        stop = bisect_right(self._starts, wanted, lo=first, key=key)
        return Found(size // _BYTES, first, stop) if stop > first else None

    def longest(self, text: Sequence[int], longest: int = DEPTH, shortest: int = 1) -> Found | None:
        """Where the longest suffix of a text, of `shortest` to `longest` tokens, occurs with
        something behind it."""
        found = self._longest(text[-min(longest, DEPTH) :], shortest)
        while (
            found is not None and self.tokens[int(self.order[found.stop - 1]) + found.length] == END
        ):
            # Suffixes at a document's end come first: where the last one is, all are.
            found = (
                self._longest(text[len(text) - found.length + 1 :], shortest)
                if found.length > shortest
                else None
            )
        return found

    def _longest(self, text: Sequence[int], shortest: int) -> Found | None:
        """Where the longest suffix of a text occurs."""
        best, low, high = None, shortest, len(text)
        step = 1
        while low <= high:  # first in growing steps, because most matches are short; then by halves
            length = min(low + step - 1, high) if step else (low + high) // 2
            found = self.find(text[len(text) - length :])
            if found is None:
                high, step = length - 1, 0
            else:
                best, low, step = found, length + 1, 2 * step
        return best

    def continuations(self, found: Found, span: int, at_most: int) -> list[tuple[int, ...]]:
        """What follows up to `at_most` occurrences, spread over those found: `span` tokens each, or
        to the document's end."""
        count = found.stop - found.first
        rows: Any = slice(found.first, found.stop)
        if count > at_most:
            rows = np.unique(np.linspace(found.first, found.stop - 1, at_most).astype(np.int64))
        positions = (self.order[rows] + found.length)[:, None] + np.arange(span)
        pieces = self.tokens[
            np.minimum(positions, len(self.tokens) - 1)
        ].tolist()  # behind the last token nothing is read: it is END
        return [tuple(piece[: piece.index(END)] if END in piece else piece) for piece in pieces]


def _fit(tokens: Any, order: Any) -> bool:
    """Whether two arrays can be a corpus: every position once, documents closed."""
    if not (tokens.ndim == order.ndim == 1 and len(tokens) == len(order) > 0):
        return False
    if not (np.issubdtype(tokens.dtype, np.integer) and np.issubdtype(order.dtype, np.integer)):
        return False
    positions = np.zeros(len(order), dtype=np.bool_)
    if order.min() < 0 or order.max() >= len(order):
        return False
    positions[order] = True
    return bool(positions.all() and tokens.min() == END == tokens[-1] and tokens.max() < 2**31 - 1)


def _suffix_array(tokens: Ids) -> Ids:
    """Suffixes in the order of their first DEPTH tokens, by doubling."""
    rank: Any = np.unique(tokens, return_inverse=True)[1].astype(np.int64) + 1
    order = np.argsort(rank, kind="stable")
    width = 1
    while width < DEPTH and rank.max() < len(rank):
        behind = np.zeros_like(rank)
        behind[:-width] = rank[width:]
        key = rank * (rank.max() + 1) + behind
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        rank[order] = np.cumsum(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        width *= 2
    return order.astype(np.int32)
