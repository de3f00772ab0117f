"""An indexed corpus of token ids that finds where the end of a text occurs and the tokens after it.

Its suffix tree finds the longest suffix of the text that occurs, as a static suffix automaton does
(SAM-Decoding, arXiv 2411.10666, section 3.1). Its suffix array finds everything that followed that
suffix, as REST needs (arXiv 2311.08252, section 3.2). A match never crosses a document's end.

Build and search times at commit 7ef747d, in processor seconds on a shared machine. The tokens are
synthetic: they follow Zipf's law, and a third of them are repeated passages.

    tokens      build (s)  bytes a token  follow (µs a token)  load mapped (s)
    100,000           0.1           25.4                  3.4              0.0
    1,000,000         1.3           26.9                  4.8              0.0
    10,000,000       20.2           25.7                  6.5              0.1
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ouroboros_core.arrays import np
from ouroboros_core.errors import UNREADABLE, InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.lookup.suffix_tree import (
    DEPTH,
    END,
    Arrays,
    Cursor,
    Ids,
    RowMatch,
    SuffixTree,
    suffix_array,
)

MAPPED = ".npy"
"""Suffix of a file that includes the index and is mapped into memory."""

_FORMAT = 0x6F75726F
"""First number of a mapped file: its kind and version."""

_HEAD = 2 + 3 + len(Arrays.__dataclass_fields__)
"""Numbers of the header: _FORMAT, checksum, lengths of fingerprint and arrays."""


class Corpus:
    """Documents with an index; a `cursor` finds a text's end, `continuations` what followed."""

    def __init__(
        self, tokens: Ids, order: Ids, tree: SuffixTree, fingerprint: str, name: str = "corpus"
    ) -> None:
        """Hold the parts of an index.

        tokens       documents, each followed by END
        order, tree  suffix array and suffix tree of `tokens`
        fingerprint  fingerprint of the tokenizer
        """
        self.tokens, self.order, self.tree = tokens, order, tree
        self.fingerprint, self.name = fingerprint, name

    @classmethod
    def build(cls, documents: Sequence[Sequence[int]], fingerprint: str = "") -> Corpus:
        """Index documents of token ids; raises InvalidInput if they are empty."""
        arrays = [
            np.array([*document, END], dtype=np.int32) for document in documents if len(document)
        ]
        if not arrays:
            raise InvalidInput("the corpus is empty: there is no document with a token in it")
        tokens = np.concatenate(arrays)
        order = suffix_array(tokens)
        return cls(tokens, order, SuffixTree.build(tokens, order), fingerprint)

    def save(self, path: Path) -> None:
        """Write a file atomically: an .npy with all arrays as they are, or a compressed .npz with
        tokens and order, from which `load` rebuilds the tree."""

        def write(file: BinaryIO) -> None:
            if path.suffix == MAPPED:
                np.save(file, self._numbers())
            else:
                name = np.array(self.fingerprint)
                np.savez_compressed(file, tokens=self.tokens, order=self.order, fingerprint=name)

        write_atomically(path, write)

    @property
    def _arrays(self) -> list[Ids]:
        return [self.tokens, self.order, *vars(self.tree.arrays).values()]

    def _numbers(self) -> Ids:
        """Return the whole corpus as one row of numbers."""
        mark = np.array([ord(letter) for letter in self.fingerprint], dtype=np.int32)
        arrays = [mark, *self._arrays]
        head = np.array([_FORMAT, 0, *map(len, arrays)], dtype=np.int32)
        numbers = np.concatenate([head, *arrays])
        numbers[1] = _checksum(numbers)
        return numbers

    @classmethod
    def load(cls, path: Path, fingerprint: str | None = None) -> Corpus:
        """Return the corpus that `save` wrote.

        Raises InvalidInput if the file is no corpus, or if its tokenizer does not have the
        `fingerprint`.
        """
        try:
            loaded = np.load(path, mmap_mode="r", allow_pickle=False)
            corpus = _mapped(loaded) if isinstance(loaded, np.ndarray) else _unpacked(loaded)
        except FileNotFoundError:
            raise InvalidInput(
                f"there is no corpus {path}: make one with sam build FILES --out {path}"
            ) from None
        except UNREADABLE:
            raise InvalidInput(
                f"{path} is not a corpus: make one with sam build FILES --out corpus.npz"
            ) from None
        if corpus is None:
            raise InvalidInput(
                f"{path} is damaged: its tokens and their order do not fit each other; build it "
                "again"
            )
        corpus.name = path.stem
        if fingerprint is not None and corpus.fingerprint != fingerprint:
            raise InvalidInput(
                f"the corpus {path} was made with another tokenizer (fingerprint "
                f"{corpus.fingerprint or 'none'}, expected {fingerprint}): its token ids mean "
                "other words here. Build it with this target: sam build FILES --target ... --out "
                "..."
            )
        return corpus

    def __len__(self) -> int:
        """Return the number of tokens, with the ends of documents."""
        return len(self.tokens)

    @property
    def documents(self) -> int:
        return int((self.tokens == END).sum())

    @property
    def largest_token(self) -> int:
        return int(self.tokens.max())

    @property
    def megabytes(self) -> float:
        """Memory use in units of 10^6 bytes."""
        return sum(array.nbytes for array in self._arrays) / 1e6

    def cursor(self, longest: int = DEPTH) -> Cursor:
        """Return a cursor that follows one text and matches up to `longest` of its last tokens."""
        return Cursor(self.tree, longest)

    def continuations(
        self, match: RowMatch, span: int, at_most: int, *, spread: bool = True
    ) -> list[tuple[int, ...]]:
        """Return the tokens after up to `at_most` occurrences: `span` tokens each, or up to the end
        of the document.

        Occurrences are sorted by their continuations. With `spread` they are taken evenly from all
        of them, otherwise from the beginning.
        """
        count = match.stop - match.first
        rows: Any = slice(match.first, min(match.stop, match.first + at_most))
        if spread and count > at_most:
            rows = np.unique(np.linspace(match.first, match.stop - 1, at_most).astype(np.int64))
        return self._behind(self.order[rows] + match.length, span)

    def first_continuation(self, match: RowMatch, span: int) -> tuple[int, ...]:
        """Return `span` tokens after the first occurrence, or up to the document's end."""
        first = self.order[match.first : match.stop].min() + match.length
        return self._behind(np.array([first]), span)[0]

    def successor(self, token: int) -> int | None:
        """Return the most frequent successor, the smallest id on a tie; None if none."""
        match = self.cursor(1).extend((token,)).match
        if match is None:
            return None
        after = self.tokens[self.order[match.first : match.stop] + 1]
        after = after[after != END]
        return int(np.bincount(after).argmax()) if len(after) else None

    def _behind(self, ends: Any, span: int) -> list[tuple[int, ...]]:
        """Return `span` tokens from each position in `ends`, or up to the end of the document."""
        # The last token is END, so that clipped positions add nothing.
        positions = np.minimum(ends[:, None] + np.arange(span), len(self.tokens) - 1)
        pieces = self.tokens[positions].tolist()
        return [tuple(piece[: piece.index(END)] if END in piece else piece) for piece in pieces]


def _unpacked(loaded: Any) -> Corpus | None:
    """Return the corpus in an .npz file, or None if its tokens and order do not fit each other."""
    with loaded as file:
        tokens, order, mark = file["tokens"], file["order"], str(file["fingerprint"])
    if not _fit(tokens, order):
        return None
    tokens, order = tokens.astype(np.int32), order.astype(np.int32)
    try:
        tree = SuffixTree.build(tokens, order)
    except ValueError:
        return None
    return Corpus(tokens, order, tree, mark)


def _mapped(numbers: Any) -> Corpus | None:
    """Return the corpus in a mapped .npy file, or None if a number has changed.

    Raises ValueError if the file is no corpus.
    """
    if numbers.ndim != 1 or numbers.dtype != np.int32 or not len(numbers) > _HEAD:
        raise ValueError("no row of numbers")
    if numbers[0] != _FORMAT:
        raise ValueError("another file")
    sizes = numbers[2:_HEAD].astype(np.int64)
    if sizes.sum() != len(numbers) - _HEAD or numbers[1] != _checksum(numbers):
        return None
    mark, tokens, order, *arrays = np.split(numbers.view(np.ndarray)[_HEAD:], np.cumsum(sizes)[:-1])
    tree = SuffixTree(tokens, order, Arrays(*arrays))
    return Corpus(tokens, order, tree, "".join(map(chr, mark)))


def _checksum(numbers: Ids) -> int:
    """Return the 31-bit checksum of all numbers after the first two."""
    return zlib.crc32(numbers[2:].data) & 0x7FFFFFFF


def _fit(tokens: Any, order: Any) -> bool:
    """Return whether the arrays form a corpus: each position once, each document closed by END."""
    if not (tokens.ndim == order.ndim == 1 and len(tokens) == len(order) > 0):
        return False
    if not (np.issubdtype(tokens.dtype, np.integer) and np.issubdtype(order.dtype, np.integer)):
        return False
    positions = np.zeros(len(order), dtype=np.bool_)
    if order.min() < 0 or order.max() >= len(order):
        return False
    positions[order] = True
    return bool(
        positions.all() and tokens.min() == END == tokens[-1] and 0 <= tokens.max() < 2**31 - 1
    )
