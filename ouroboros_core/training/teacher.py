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
"""How many of the target's most probable tokens are kept at each position; the rest of the mass is
left out."""

PROJECTED = 4096
"""Rows that meet the output matrix at once."""


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
        """sources: the files of conversations, each a collection; places count through all of them.

        features  whether hidden states are wanted: the last ones, and those after `depths` layers
        memory    whether features are instead the keys and values of the last layer, those of all
                  heads one after the other
        """
        self.target, self.data = target, join(sources)
        self._wants_features, self._depths, self._memory = features, tuple(depths), memory
        _check_logits(target)
        self._kept = min(TOP_K, target.config.get_text_config(decoder=True).vocab_size)

    @property
    def memory_shape(self) -> tuple[int, int]:
        """How many keys the target's last layer has for a token, and their width."""
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
        """Make sure that everything is known of these conversations."""
        ids, probabilities, features = self._answer(group)
        places = self.data.answer_rows(group)[1]
        order = np.argsort(places)
        self._places, self._order = places[order], order
        self._ids, self._probabilities = ids, probabilities
        self._latest = features

    def likeliest(self, places: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        """The ids [places, TOP_K] of the likeliest next tokens at places from which an answer goes
        on, and their probabilities, which sum to at most 1."""
        found = self._order[np.searchsorted(self._places, places)]
        rows = torch.from_numpy(found).to(self.device)
        return self._ids[rows], self._probabilities[rows]

    def features(self, group: Ids) -> torch.Tensor:
        """Features [batch, length, width * (1 + depths)] in bfloat16 of the conversations that were
        asked about last."""
        return self._latest

    @torch.no_grad()
    def _answer(self, group: Ids) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids and probabilities [places, TOP_K], features [batch, length, width * (1 + depths)]."""
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
        ids = torch.empty(len(rows), self._kept, dtype=torch.long, device=self.device)
        probabilities = torch.empty(len(rows), self._kept, device=self.device)
        for part in torch.split(torch.arange(len(rows), device=self.device), PROJECTED):
            logits = self.target.get_output_embeddings()(hidden[part]).float()
            top = (logits - logits.logsumexp(-1, keepdim=True)).topk(self._kept)
            ids[part], probabilities[part] = top.indices, top.values.exp()
        if not self._wants_features:
            return ids, probabilities, last[..., :0]
        if cache is not None:
            held = cache.layers[-1]
            memory = [part.transpose(1, 2).flatten(2) for part in (held.keys, held.values)]
            return ids, probabilities, torch.cat(memory, -1).bfloat16()
        between = [output.hidden_states[depth] for depth in self._depths]
        return ids, probabilities, torch.cat([last, *between], -1).bfloat16()


class StoredTeacher(Teacher):
    """Asks the target once and keeps its answers in files, by target and contents of each file of
    conversations: further data leave what is known of the old."""

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
        mine = hashlib.sha256(repr((signature(target), str(target.dtype))).encode()).hexdigest()[:8]
        folders = [folder / f"{mine}-{part.digest}" for part in sources]
        for one in folders:
            one.mkdir(parents=True, exist_ok=True)
        lengths = [len(part.tokens) for part in sources]
        self._stored_ids = _Store(folders, lengths, "ids.npy", np.int32, self._kept)
        self._stored = _Store(folders, lengths, "probabilities.npy", np.float16, self._kept)
        width = target.config.get_text_config(decoder=True).hidden_size * (1 + len(self._depths))
        if memory:
            width = 2 * math.prod(self.memory_shape)
        name = "-".join(["memory" if memory else "features", *map(str, self._depths)]) + ".npy"
        self._stored_features = (
            _Store(folders, lengths, name, np.uint16, width) if features else None
        )

    def ask(self, group: Ids) -> None:
        data = self.data
        places = data.answer_rows(group)[1]
        known = (self._stored.read(places)[:, 0] > 0).all()
        stored = self._stored_features
        if known and (stored is None or stored.read(data.offsets[group]).any(1).all()):
            return
        ids, probabilities, features = self._answer(group)
        self._stored_ids.write(places, ids.cpu().numpy())
        self._stored.write(places, np.maximum(probabilities.cpu().numpy(), 6e-8))
        if stored is not None:
            rows = torch.cat([features[n, : data.length(i)] for n, i in enumerate(group)]).cpu()
            stored.write(self._tokens_of(group), rows.view(torch.int16).numpy().view(np.uint16))

    def likeliest(self, places: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        p = torch.from_numpy(self._stored.read(places).astype(np.float32))
        ids = torch.from_numpy(self._stored_ids.read(places).astype(np.int64))
        return ids.to(self.device), p.to(self.device)

    def features(self, group: Ids) -> torch.Tensor:
        """Of any conversations; zero behind a conversation's end."""
        assert self._stored_features is not None
        lengths = [self.data.length(i) for i in group]
        held = self._stored_features.read(self._tokens_of(group)).view(np.int16)
        rows = torch.from_numpy(held).view(torch.bfloat16)
        found = torch.zeros(len(group), max(lengths), rows.shape[1], dtype=torch.bfloat16)
        for row, part in enumerate(torch.split(rows, lengths)):
            found[row, : len(part)] = part
        return found.to(self.device)

    def _tokens_of(self, group: Ids) -> Ids:
        """The places of all tokens of these conversations, one after the other."""
        offsets = self.data.offsets
        return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in group])
