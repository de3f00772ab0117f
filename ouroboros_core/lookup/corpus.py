"""An indexed corpus of token ids: finds where the end of a text occurs and what follows.

Its suffix tree answers what a static suffix automaton answers (SAM-Decoding, arXiv 2411.10666,
section 3.1: the longest suffix of the text that occurs), and its suffix array what REST asks (arXiv
2311.08252, section 3.2: everything that followed it). Documents are kept apart.

Measured at commit 7ef747d in seconds of a processor, on a machine that other work shared. The
tokens are made up: they follow Zipf's law, and a third of them are repeated passages:

    tokens      build (s)  bytes a token  follow (µs a token)  load mapped (s)
    100,000           0.1           25.4                  3.4              0.0
    1,000,000         1.3           26.9                  4.8              0.0
    10,000,000       20.2           25.7                  6.5              0.1
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.lookup.suffix_array import DEPTH, END, Ids, suffix_array
from ouroboros_core.lookup.suffix_tree import Arrays, Cursor, Found, SuffixTree

MAPPED = ".npy"
"""The suffix of a file that holds the index, too, and is mapped into memory."""

_FORMAT = 0x6F75726F
"""First number of such a file: its kind and version."""

_HEAD = 2 + 3 + len(Arrays.__dataclass_fields__)
"""Numbers at its beginning: _FORMAT, a checksum, and how many the fingerprint and each array
have."""


class Corpus:
    """Documents, searchable by what they contain: a `cursor` finds the end of a text,
    `continuations` what followed."""

    def __init__(
        self, tokens: Ids, order: Ids, tree: SuffixTree, fingerprint: str, name: str = "corpus"
    ) -> None:
        """tokens: documents with END behind each; order, tree: the suffix array and tree over them;
        fingerprint: of the tokenizer."""
        self.tokens, self.order, self.tree = tokens, order, tree
        self.fingerprint, self.name = fingerprint, name

    @classmethod
    def build(cls, documents: Sequence[Sequence[int]], fingerprint: str = "") -> Corpus:
        """Index documents of token ids; raises InvalidInput if they are empty."""
        parts = [
            np.array([*document, END], dtype=np.int32) for document in documents if len(document)
        ]
        if not parts:
            raise InvalidInput("the corpus is empty: there is no document with a token in it")
        tokens = np.concatenate(parts)
        order = suffix_array(tokens)
        return cls(tokens, order, SuffixTree.build(tokens, order), fingerprint)

    def save(self, path: Path) -> None:
        """Write a file, atomically: an .npy of all arrays as they are, or else an .npz of tokens
        and their order, compressed, from which `load` builds the tree again."""

        def write(file: BinaryIO) -> None:
            if path.suffix == MAPPED:
                np.save(file, self._numbers())
            else:
                np.savez_compressed(
                    file,
                    tokens=self.tokens,
                    order=self.order,
                    fingerprint=np.array(self.fingerprint),
                )

        write_atomically(path, write)

    @property
    def _arrays(self) -> list[Ids]:
        return [self.tokens, self.order, *vars(self.tree.arrays).values()]

    def _numbers(self) -> Ids:
        """All there is, in one row of numbers."""
        mark = np.array([ord(letter) for letter in self.fingerprint], dtype=np.int32)
        parts = [mark, *self._arrays]
        head = np.array([_FORMAT, 0, *map(len, parts)], dtype=np.int32)
        numbers = np.concatenate([head, *parts])
        numbers[1] = _checksum(numbers)
        return numbers

    @classmethod
    def load(cls, path: Path, fingerprint: str | None = None) -> Corpus:
        """The corpus that `save` wrote.

        Raises InvalidInput for another file and, where `fingerprint` is given, for another
        tokenizer's.
        """
        try:
            loaded = np.load(path, mmap_mode="r", allow_pickle=False)
            corpus = _mapped(loaded) if isinstance(loaded, np.ndarray) else _unpacked(loaded)
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
        if corpus is None:
            raise InvalidInput(
                f"{path} is damaged: its tokens and their order do not fit each other; build it "
                "again"
            )
        corpus.name = path.stem
        mine = corpus.fingerprint
        if fingerprint is not None and mine != fingerprint:
            raise InvalidInput(
                f"the corpus {path} was made with another tokenizer (fingerprint {mine or 'none'}, "
                f"expected {fingerprint}): "
                "its token ids mean other words here. Build it with this target: sam build FILES "
                "--target ... --out ..."
            )
        return corpus

    def __len__(self) -> int:
        """Tokens, ends of documents included."""
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
        """Follows one text; knows the longest end of it that occurs, of at most `longest`
        tokens."""
        return Cursor(self.tree, longest)

    def continuations(
        self, found: Found, span: int, at_most: int, *, spread: bool = True
    ) -> list[tuple[int, ...]]:
        """What follows up to `at_most` occurrences: `span` tokens each, or to the document's end.

        spread: take them evenly from all that were found, which are in the order of what follows;
        or else the first
        """
        count = found.stop - found.first
        rows: Any = slice(found.first, min(found.stop, found.first + at_most))
        if spread and count > at_most:
            rows = np.unique(np.linspace(found.first, found.stop - 1, at_most).astype(np.int64))
        return self._behind(self.order[rows] + found.length, span)

    def first_continuation(self, found: Found, span: int) -> tuple[int, ...]:
        """What follows the first occurrence in the corpus: `span` tokens, or to the document's
        end."""
        first = self.order[found.first : found.stop].min() + found.length
        return self._behind(np.array([first]), span)[0]

    def successor(self, token: int) -> int | None:
        """The token that follows this one most often, of equals the least; None where none does."""
        found = self.cursor(1).extend((token,)).found
        if found is None:
            return None
        after = self.tokens[self.order[found.first : found.stop] + 1]
        after = after[after != END]
        return int(np.bincount(after).argmax()) if len(after) else None

    def _behind(self, ends: Any, span: int) -> list[tuple[int, ...]]:
        """`span` tokens from each of these positions on, or to the document's end."""
        positions = ends[:, None] + np.arange(span)
        pieces = self.tokens[
            np.minimum(positions, len(self.tokens) - 1)
        ].tolist()  # behind the last token nothing is read: it is END
        return [tuple(piece[: piece.index(END)] if END in piece else piece) for piece in pieces]


def _unpacked(loaded: Any) -> Corpus | None:
    """From the tokens and the order in an .npz file; None if they do not fit each other."""
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
    """From the numbers in an .npy file, where they are; None if one has changed. Raises ValueError
    if they are no corpus."""
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
    """Of what is behind the first two, 31 bits."""
    return zlib.crc32(numbers[2:].data) & 0x7FFFFFFF


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
    return bool(
        positions.all() and tokens.min() == END == tokens[-1] and 0 <= tokens.max() < 2**31 - 1
    )
