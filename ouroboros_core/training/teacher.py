"""The target's answers to the training texts, computed once and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.eagle import signature
from ouroboros_core.training.corpus import Conversations, Ids, join

TOP_K = 16
"""How many of the target's most probable tokens are kept at each position; the rest of the mass is
left out."""


def _memmap(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A file-backed array, zeros at first; one of another shape is begun anew."""
    if path.exists():
        found = np.lib.format.open_memmap(path, "r+")
        if found.shape == shape:
            return found
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


@torch.inference_mode()
def _check_logits(target: PreTrainedModel) -> None:
    """Raise UnsupportedModel unless logits are the output matrix times the last hidden state, and
    nothing more."""
    ids = (
        torch.arange(8, device=target.device)[None]
        % target.config.get_text_config(decoder=True).vocab_size
    )
    logits = target(input_ids=ids, use_cache=False).logits.float()
    simple = target.get_output_embeddings()(
        target.base_model(ids, use_cache=False).last_hidden_state
    ).float()
    if not (logits - simple).norm() <= 0.02 * logits.norm():
        raise UnsupportedModel(
            f"a target of type {target.config.model_type} scales or caps its logits behind the "
            "output matrix: no draft is "
            f"trained for it"
        )


class _Store:
    """Rows of numbers for the tokens of several files of conversations, one file of numbers for
    each."""

    def __init__(
        self, folders: Sequence[Path], lengths: Sequence[int], name: str, dtype: Any, width: int
    ) -> None:
        self._arrays = [
            _memmap(f / name, dtype, (n, width)) for f, n in zip(folders, lengths, strict=True)
        ]
        self._starts = np.cumsum([0, *lengths])
        self._empty = np.zeros((0, width), dtype)

    def read(self, places: Ids) -> Any:
        """Rows [places, width]."""
        found = np.empty((len(places), self._empty.shape[1]), self._empty.dtype)
        for array, here, local in self._split(places):
            found[here] = array[local]
        return found

    def write(self, places: Ids, rows: Any) -> None:
        for array, here, local in self._split(places):
            array[local] = rows[here]

    def _split(self, places: Ids) -> Iterator[tuple[Any, Any, Ids]]:
        owner = np.searchsorted(self._starts, places, side="right") - 1
        for index in np.unique(owner):
            here = owner == index
            yield self._arrays[index], here, places[here] - self._starts[index]


class Teacher:
    """Asks the target for what is not yet known.

    laws      ids and probabilities [places, TOP_K] of the likeliest next tokens, at the places from
              which an answer goes on
    features  last hidden states [places, width] in bfloat16, kept only if wanted

    Kept by target and contents of each file of conversations: further data leave what is known of
    the old.
    """

    def __init__(
        self,
        target: PreTrainedModel,
        sources: Sequence[Conversations],
        folder: Path,
        *,
        features: bool,
    ) -> None:
        """sources: the files of conversations, each a collection; places count through all of
        them."""
        mine = hashlib.sha256(repr((signature(target), str(target.dtype))).encode()).hexdigest()[:8]
        folders = [folder / f"{mine}-{part.digest}" for part in sources]
        for one in folders:
            one.mkdir(parents=True, exist_ok=True)
        self.target, self.data = target, join(sources)
        _check_logits(target)
        lengths, config = (
            [len(part.tokens) for part in sources],
            target.config.get_text_config(decoder=True),
        )
        self._kept = min(TOP_K, config.vocab_size)
        self._ids = _Store(folders, lengths, "ids.npy", np.int32, self._kept)
        self._probabilities = _Store(folders, lengths, "probabilities.npy", np.float16, self._kept)
        self._features = (
            _Store(folders, lengths, "features.npy", np.uint16, config.hidden_size)
            if features
            else None
        )

    @torch.inference_mode()
    def ask(self, group: Ids) -> None:
        """Make sure that everything is known of these conversations."""
        data, device = self.data, self.target.device
        rows, places = data.answer_rows(group)
        known = (self._probabilities.read(places)[:, 0] > 0).all()
        if known and (
            self._features is None or self._features.read(data.offsets[group]).any(1).all()
        ):
            return
        ids = data.pad(group)
        hidden = self.target.base_model(ids.to(device), use_cache=False).last_hidden_state.flatten(
            0, 1
        )
        if self._features is not None:
            real = np.concatenate(
                [n * ids.shape[1] + np.arange(data.length(i)) for n, i in enumerate(group)]
            )
            every = np.concatenate([np.arange(data.offsets[i], data.offsets[i + 1]) for i in group])
            kept = hidden[torch.from_numpy(real).to(device)]
            self._features.write(
                every, kept.to("cpu", torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
            )
        hidden = hidden[torch.from_numpy(rows).to(device)]
        for start in range(0, len(places), 512):
            part = places[start : start + 512]
            logits = self.target.get_output_embeddings()(hidden[start : start + 512]).float()
            top = (logits - logits.logsumexp(-1, keepdim=True)).topk(self._kept)
            self._ids.write(part, top.indices.cpu().numpy())
            self._probabilities.write(part, np.maximum(top.values.exp().cpu().numpy(), 6e-8))

    def laws(self, places: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        """ids [places, TOP_K] and probabilities, which sum to at most 1."""
        p = torch.from_numpy(self._probabilities.read(places).astype(np.float32))
        return torch.from_numpy(self._ids.read(places).astype(np.int64)), p

    def features(self, group: Ids) -> torch.Tensor:
        """Features [batch, length, width] in bfloat16, zero behind a conversation's end."""
        assert self._features is not None
        data = self.data
        lengths = [data.length(i) for i in group]
        every = np.concatenate([np.arange(data.offsets[i], data.offsets[i + 1]) for i in group])
        rows = torch.from_numpy(self._features.read(every).view(np.int16)).view(torch.bfloat16)
        found = torch.zeros(len(group), max(lengths), rows.shape[1], dtype=torch.bfloat16)
        for row, part in enumerate(torch.split(rows, lengths)):
            found[row, : len(part)] = part
        return found
