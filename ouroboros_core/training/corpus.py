"""Conversations as token ids, which drafts are trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.errors import UNREADABLE, InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.messages import allowed, counted

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Conversations:
    """Token ids of conversations, one after the other. Conversation i is
    tokens[offsets[i]:offsets[i+1]], and its answer starts at answer_start[i]."""

    tokens: Ids
    offsets: Ids
    answer_start: Ids

    @classmethod
    def load(cls, paths: Sequence[str | Path]) -> Conversations:
        """Return all conversations of several npz files, in order. Raises InvalidInput for another
        file."""
        collections: list[Conversations] = []
        for path in paths:
            try:
                with np.load(path, allow_pickle=False) as file:
                    names = ("tokens", "offsets", "answer_start")
                    collections.append(cls(*(file[name].astype(np.int64) for name in names)))
            except UNREADABLE as error:
                raise InvalidInput(
                    f"{path} is not a file of conversations (npz of tokens, offsets, "
                    f"answer_start): {error}"
                ) from None
        if not collections:
            raise InvalidInput("there are no conversations: name files with --data")
        return join(collections)

    def save(self, path: Path) -> None:
        """Write as npz, with ids in 16 bits if they fit."""
        kind = np.uint16 if self.tokens.max(initial=0) < 1 << 16 else np.uint32
        tokens, start = self.tokens.astype(kind), self.answer_start.astype(np.int32)
        arrays: dict[str, Any] = {"tokens": tokens, "offsets": self.offsets, "answer_start": start}
        write_atomically(path, lambda file: np.savez_compressed(file, **arrays))

    @property
    def digest(self) -> str:
        """Sixteen hex digits of a hash over the conversations."""
        arrays = (
            np.ascontiguousarray(a, dtype=np.int64).tobytes()
            for a in (self.tokens, self.offsets, self.answer_start)
        )
        return hashlib.sha256(b"".join(arrays)).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.answer_start)

    def length(self, index: int) -> int:
        return int(self.offsets[index + 1] - self.offsets[index])

    @property
    def written(self) -> npt.NDArray[np.bool_]:
        """Whether each token belongs to an answer."""
        inside = np.zeros(len(self.tokens), dtype=np.bool_)
        for index, start in enumerate(self.answer_start):
            inside[self.offsets[index] + start : self.offsets[index + 1]] = True
        return inside

    @property
    def idle(self) -> str:
        """The reason why a draft cannot learn from these answers, in words, or ''."""
        answers = self.tokens[self.written]
        if len(answers) <= len(self):
            return "every answer has a single token, behind which nothing is drafted"
        if len(np.unique(answers)) == 1:
            return f"all answers repeat one token, id {answers[0]}"
        return ""

    def split(self, held_out: int, seed: int) -> tuple[Ids, Ids]:
        """Return the indices to train on and the held-out ones, which depend on data and seed
        only."""
        if not 0 < held_out < len(self):
            limits = allowed(1, len(self) - 1, "below the number of conversations")
            fewer = ", or hold out fewer" if len(self) > 1 else ""
            raise InvalidInput(
                f"held_out must be {limits}, got {held_out}: the texts make "
                f"{counted(len(self), 'conversation')}, add more until there are at least "
                f"{max(1, held_out) + 1}{fewer}"
            )
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        return order[held_out:], order[:held_out]

    def batches(self, indices: Ids, batch_tokens: int) -> Iterator[Ids]:
        """Yield groups of conversations of similar length, each of about batch_tokens tokens with
        padding."""
        order = indices[np.argsort([self.length(i) for i in indices], kind="stable")]
        start = 0
        while start < len(order):
            stop = start + 1
            while (
                stop < len(order) and (stop - start + 1) * self.length(order[stop]) <= batch_tokens
            ):
                stop += 1
            yield order[start:stop]
            start = stop

    def epoch(self, indices: Ids, batch_tokens: int, seed: int, epoch: int) -> list[Ids]:
        """Return the batches of one pass over the data, in an order that depends on the epoch."""
        rng = np.random.default_rng([seed, epoch, 2])
        groups = list(self.batches(rng.permutation(indices), batch_tokens))
        return [groups[i] for i in rng.permutation(len(groups))]

    def pad(self, indices: Ids) -> torch.Tensor:
        """Return ids [batch, length], right-padded with 0."""
        ids = np.zeros((len(indices), max(self.length(i) for i in indices)), dtype=np.int64)
        for row, i in enumerate(indices):
            ids[row, : self.length(i)] = self.tokens[self.offsets[i] : self.offsets[i + 1]]
        return torch.from_numpy(ids)

    def answer_rows(self, indices: Ids, ahead: int = 0) -> tuple[Ids, Ids]:
        """Return the rows where a model that looks `ahead` tokens further predicts an answer's
        token.

        They are rows of the flat padded batch, and for each row the position in `tokens` whose
        *next* token the model predicts.
        """
        width = max(self.length(i) for i in indices)
        rows, positions = [], []
        for row, i in enumerate(indices):
            inside = np.arange(max(0, self.answer_start[i] - 1 - ahead), self.length(i) - 1 - ahead)
            rows.append(row * width + inside)
            positions.append(self.offsets[i] + inside + ahead)
        return np.concatenate(rows), np.concatenate(positions)


def files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of conversations that paths name, of a folder all files in order. Raises
    InvalidInput if a path is missing."""
    paths_of_files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"there is no file or folder {path}")
        inside = sorted(path.glob("*.npz")) if path.is_dir() else [path]
        if not inside:
            raise InvalidInput(
                f"there are no conversations in the folder {path}: `train data` makes some"
            )
        paths_of_files += inside
    return paths_of_files


def join(collections: Sequence[Conversations]) -> Conversations:
    """Return all conversations of several collections, in order."""
    starts = np.cumsum([0, *(len(p.tokens) for p in collections)])
    offsets = [
        np.zeros(1, dtype=np.int64),
        *(p.offsets[1:] + start for p, start in zip(collections, starts, strict=False)),
    ]
    return Conversations(
        np.concatenate([p.tokens for p in collections]),
        np.concatenate(offsets),
        np.concatenate([p.answer_start for p in collections]),
    )


def plain_texts(texts: Sequence[Sequence[int]], length: int = 512) -> Conversations:
    """Return texts as pieces of `length` tokens. A draft learns all tokens of a piece but the
    first."""
    pieces = [text[n : n + length] for text in texts for n in range(0, len(text), length)]
    pieces = [piece for piece in pieces if len(piece) > 1]
    if not pieces:
        raise InvalidInput("the texts are empty")
    offsets = np.cumsum([0, *map(len, pieces)])
    return Conversations(
        np.concatenate([np.array(p, dtype=np.int64) for p in pieces]),
        offsets,
        np.ones(len(pieces), dtype=np.int64),
    )
