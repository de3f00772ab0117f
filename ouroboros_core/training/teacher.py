"""The target's answers to the training texts: computed for each batch, or once and kept on disk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.heads.head import signature
from ouroboros_core.training.corpus import Conversations, Ids, join

TOP_K = 16
"""Number of the target's most probable tokens that are stored for each position."""

PROJECTED = 4096
"""Rows of one product with the output matrix."""


def _memmap(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Return a file-backed array, zeros at first. A file of another shape is overwritten."""
    if path.exists():
        array = np.lib.format.open_memmap(path, "r+")
        if array.shape == shape:
            return array
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


@torch.inference_mode()
def _check_logits(target: PreTrainedModel) -> None:
    """Raise UnsupportedModel unless logits are the product of output matrix and last hidden
    state."""
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
    """Rows of numbers for the tokens of several files of conversations, in a file of numbers for
    each."""

    def __init__(
        self, folders: Sequence[Path], lengths: Sequence[int], name: str, dtype: Any, width: int
    ) -> None:
        self._arrays = [
            _memmap(f / name, dtype, (n, width)) for f, n in zip(folders, lengths, strict=True)
        ]
        self._starts = np.cumsum([0, *lengths])
        self._empty = np.zeros((0, width), dtype)

    def read(self, positions: Ids) -> Any:
        """Return rows [positions, width]."""
        rows = np.empty((len(positions), self._empty.shape[1]), self._empty.dtype)
        for array, inside, local in self._split(positions):
            rows[inside] = array[local]
        return rows

    def write(self, positions: Ids, rows: Any) -> None:
        for array, inside, local in self._split(positions):
            array[local] = rows[inside]

    def _split(self, positions: Ids) -> Iterator[tuple[Any, Any, Ids]]:
        """Yield each array, whether it has a position, and its positions in the array."""
        owner = np.searchsorted(self._starts, positions, side="right") - 1
        for index in np.unique(owner):
            inside = owner == index
            yield self._arrays[index], inside, positions[inside] - self._starts[index]


class Teacher:
    """Asks the target about each batch anew, which is fastest on a GPU."""

    def __init__(
        self,
        target: PreTrainedModel,
        sources: Sequence[Conversations],
        *,
        features: bool,
        depths: Sequence[int] = (),
        memory: bool = False,
    ) -> None:
        """sources: the files of conversations. Positions count through all of them.

        features  whether the student reads the last hidden states, and the states after `depths`
                  layers
        memory    whether features are instead the keys and values of all heads of the last layer,
                  one after the other
        """
        self.target, self.data = target, join(sources)
        self._wants_features, self._depths, self._memory = features, tuple(depths), memory
        _check_logits(target)
        self._ranks = min(TOP_K, target.config.get_text_config(decoder=True).vocab_size)

    @property
    def memory_shape(self) -> tuple[int, int]:
        """The number of keys of a token in the target's last layer, and their width."""
        with torch.inference_mode():
            ids = torch.zeros(1, 1, dtype=torch.long, device=self.device)
            cache = DynamicCache()
            self.target.base_model(ids, use_cache=True, past_key_values=cache)
        keys = cache.layers[-1].keys
        assert keys is not None and keys.shape == cache.layers[-1].values.shape
        return keys.shape[1], keys.shape[3]

    @property
    def device(self) -> torch.device:
        device: torch.device = self.target.device
        return device

    def ask(self, group: Ids) -> None:
        """Compute the answers to these conversations."""
        ids, probabilities, features = self._answer(group)
        positions = self.data.answer_rows(group)[1]
        order = np.argsort(positions)
        self._positions, self._order = positions[order], order
        self._ids, self._probabilities = ids, probabilities
        self._latest = features

    def likeliest(self, positions: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ids [positions, TOP_K] of the likeliest next tokens before an answer token,
        and their probabilities, which sum to at most 1."""
        indices = self._order[np.searchsorted(self._positions, positions)]
        rows = torch.from_numpy(indices).to(self.device)
        return self._ids[rows], self._probabilities[rows]

    def features(self, group: Ids) -> torch.Tensor:
        """Return features [batch, length, width * (1 + depths)] in bfloat16 of the conversations of
        the last `ask`."""
        return self._latest

    @torch.no_grad()
    def _answer(self, group: Ids) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return ids and probabilities [positions, TOP_K], and features [batch, length, width * (1
        + depths)]."""
        rows = torch.from_numpy(self.data.answer_rows(group)[0]).to(self.device)
        cache = DynamicCache() if self._memory else None
        output = self.target.base_model(
            self.data.pad(group).to(self.device),
            use_cache=self._memory,
            past_key_values=cache,
            output_hidden_states=bool(self._depths),
        )
        last = output.last_hidden_state
        hidden = last.flatten(0, 1)[rows]
        ids = torch.empty(len(rows), self._ranks, dtype=torch.long, device=self.device)
        probabilities = torch.empty(len(rows), self._ranks, device=self.device)
        for chunk in torch.split(torch.arange(len(rows), device=self.device), PROJECTED):
            logits = self.target.get_output_embeddings()(hidden[chunk]).float()
            top = (logits - logits.logsumexp(-1, keepdim=True)).topk(self._ranks)
            ids[chunk], probabilities[chunk] = top.indices, top.values.exp()
        if not self._wants_features:
            return ids, probabilities, last[..., :0]
        if cache is not None:
            held = cache.layers[-1]
            memory = [tensor.transpose(1, 2).flatten(2) for tensor in (held.keys, held.values)]
            return ids, probabilities, torch.cat(memory, -1).bfloat16()
        between = [output.hidden_states[depth] for depth in self._depths]
        return ids, probabilities, torch.cat([last, *between], -1).bfloat16()


class StoredTeacher(Teacher):
    """Asks the target once and keeps its answers in files, by target and content of each file of
    conversations, so that further data leave earlier answers valid."""

    def __init__(
        self,
        target: PreTrainedModel,
        sources: Sequence[Conversations],
        folder: Path,
        *,
        features: bool,
        depths: Sequence[int] = (),
        memory: bool = False,
    ) -> None:
        super().__init__(target, sources, features=features, depths=depths, memory=memory)
        weights = repr((signature(target), str(target.dtype))).encode()
        name = hashlib.sha256(weights).hexdigest()[:8]
        folders = [folder / f"{name}-{source.digest}" for source in sources]
        for source_folder in folders:
            source_folder.mkdir(parents=True, exist_ok=True)
        lengths = [len(source.tokens) for source in sources]
        self._stored_ids = _Store(folders, lengths, "ids.npy", np.int32, self._ranks)
        self._stored = _Store(folders, lengths, "probabilities.npy", np.float16, self._ranks)
        width = target.config.get_text_config(decoder=True).hidden_size * (1 + len(self._depths))
        if memory:
            width = 2 * math.prod(self.memory_shape)
        words = ["memory" if memory else "features", *map(str, self._depths)]
        file = "-".join(words) + ".npy"
        self._stored_features = (
            _Store(folders, lengths, file, np.uint16, width) if features else None
        )

    def ask(self, group: Ids) -> None:
        data = self.data
        positions = data.answer_rows(group)[1]
        complete = (self._stored.read(positions)[:, 0] > 0).all()
        stored = self._stored_features
        if complete and (stored is None or stored.read(data.offsets[group]).any(1).all()):
            return
        ids, probabilities, features = self._answer(group)
        self._stored_ids.write(positions, ids.cpu().numpy())
        self._stored.write(positions, np.maximum(probabilities.cpu().numpy(), 6e-8))
        if stored is not None:
            rows = torch.cat([features[n, : data.length(i)] for n, i in enumerate(group)]).cpu()
            stored.write(self._tokens_of(group), rows.view(torch.int16).numpy().view(np.uint16))

    def likeliest(self, positions: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        p = torch.from_numpy(self._stored.read(positions).astype(np.float32))
        ids = torch.from_numpy(self._stored_ids.read(positions).astype(np.int64))
        return ids.to(self.device), p.to(self.device)

    def features(self, group: Ids) -> torch.Tensor:
        """Return the features of any conversations, zeros after the end of each."""
        assert self._stored_features is not None
        lengths = [self.data.length(i) for i in group]
        held = self._stored_features.read(self._tokens_of(group)).view(np.int16)
        rows = torch.from_numpy(held).view(torch.bfloat16)
        padded = torch.zeros(len(group), max(lengths), rows.shape[1], dtype=torch.bfloat16)
        for index, text in enumerate(torch.split(rows, lengths)):
            padded[index, : len(text)] = text
        return padded.to(self.device)

    def _tokens_of(self, group: Ids) -> Ids:
        """Return the positions of all tokens of these conversations, one after the other."""
        offsets = self.data.offsets
        return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in group])
