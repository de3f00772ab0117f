"""A KV cache for token trees: preallocated, written in place, an accepted path compacted in place.

It is a transformers `Cache`, so every model that keeps keys and values per token works with it.
Rows are never concatenated, and the tensors move only if the capacity must grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from ouroboros_core.models.engines.native import build

GRAIN = 256
"""Capacity grows in multiples of this many rows."""


class AttentionShape(NamedTuple):
    """Query heads of a layer, its heads of keys and values, and the width of a head."""

    heads: int
    key_value_heads: int
    width: int


def layer_configs(config: Any) -> list[Any]:
    """Return the configuration of each layer of a text model. It is the model's, unless layers
    differ, as Gemma 4's do in the width of a head."""
    if getattr(config, "is_heterogeneous", False):
        return list(config.per_layer_config)
    return [config] * int(config.num_hidden_layers)


def attention_shape(layer: Any) -> AttentionShape:
    """Return the shape of a layer from its configuration."""
    heads = int(layer.num_attention_heads)
    shared = int(getattr(layer, "num_key_value_heads", None) or heads)
    width = int(getattr(layer, "head_dim", None) or layer.hidden_size // heads)
    return AttentionShape(heads, shared, width)


class TreeCacheLayer(CacheLayerMixin):
    """Keys and values of one layer, [batch, heads, capacity, width] each; the first `length` rows
    are used."""

    is_sliding = False

    def __init__(self, zeroed: bool = False) -> None:
        super().__init__()
        self.length = 0
        self.capacity = GRAIN
        self.zeroed = zeroed

    def _allocated(self, like: torch.Tensor) -> torch.Tensor:
        """Return new memory for `capacity` rows like the rows [batch, heads, rows, width]."""
        make = like.new_zeros if self.zeroed else like.new_empty
        return make(*like.shape[:2], self.capacity, like.shape[3])

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = self._allocated(key_states)
        self.values = self._allocated(value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append rows; return all rows as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[-2]
        assert self.keys is not None and self.values is not None
        self.keys[:, :, start : self.length] = key_states
        self.values[:, :, start : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def grow(self, capacity: int) -> None:
        """Allocate `capacity` rows; move the rows if memory was allocated before."""
        self.capacity = capacity
        if self.is_initialized:
            assert self.keys is not None and self.values is not None
            for name, old in (("keys", self.keys), ("values", self.values)):
                new = self._allocated(old)
                new[:, :, : self.length] = old[:, :, : self.length]
                setattr(self, name, new)

    def gather(self, start: int, rows: torch.Tensor | None, count: int) -> None:
        """Keep the rows before `start`, then `count` rows: `rows`, or for None the next ones.
        Forget the rest."""
        if rows is not None and self.is_initialized:
            assert self.keys is not None and self.values is not None
            self.keys[:, :, start : start + count] = self.keys.index_select(2, rows)
            self.values[:, :, start : start + count] = self.values.index_select(2, rows)
        self.length = start + count

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # its name before transformers 5.20


class TreeCache(Cache):
    """The layers of one model; all hold the same rows."""

    def __init__(self, layers: int, zeroed: bool = False) -> None:
        """zeroed: fill new memory with zeros, for a pass that reads the whole capacity and masks
        unused rows: uninitialised memory may hold NaN."""
        super().__init__(layers=[TreeCacheLayer(zeroed) for _ in range(layers)])
        self.zeroed = zeroed

    @property
    def capacity(self) -> int:
        """Return the rows that fit without moving the tensors."""
        capacity: int = self.layers[0].capacity
        return capacity

    @property
    def bytes(self) -> int:
        """Return the allocated bytes."""
        return sum(
            layer.keys.nbytes + layer.values.nbytes for layer in self.layers if layer.is_initialized
        )

    def reserve(self, rows: int) -> None:
        """Allocate at least `rows` rows, and at least twice the capacity if the cache grows."""
        if rows > self.capacity:
            least = max(rows, 2 * self.capacity if self.layers[0].is_initialized else 0)
            for layer in self.layers:
                layer.grow(-(-least // GRAIN) * GRAIN)

    def append(
        self, index: int, rows: int, heads: int, width: int, like: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Return keys and values [1, heads, capacity, width] of a layer and the index of the first
        of `rows` new rows, which the caller writes."""
        layer = self.layers[index]
        if not layer.is_initialized:
            empty = like.new_empty(1, heads, 0, width)
            layer.lazy_initialization(empty, empty)
        past: int = layer.length
        layer.length += rows
        return layer.keys, layer.values, past

    def keep(self, start: int, rows: Sequence[int] = ()) -> None:
        """Keep the rows before `start` and then `rows`, in order and all at or after `start`;
        compact them in place."""
        in_place = list(rows) == list(range(start, start + len(rows)))
        moved = in_place or self._move(start, rows)
        index = None if moved else torch.tensor(rows)
        for layer in self.layers:
            if index is not None and layer.is_initialized:
                index = index.to(layer.keys.device)
            layer.gather(start, index, len(rows))

    def _move(self, start: int, rows: Sequence[int]) -> bool:
        """Compact all layers by the compiled code; return whether it can."""
        used = [layer for layer in self.layers if layer.is_initialized]
        tensors: list[torch.Tensor] = [
            tensor for layer in used for tensor in (layer.keys, layer.values)
        ]
        on_cpu = all(tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors)
        ascending = all(a < b for a, b in pairwise(rows))
        library = build.library() if on_cpu and ascending else None
        if library is None:
            return False
        numbers: list[int] = []
        for tensor in tensors:
            batch, heads, capacity, width = tensor.shape
            assert capacity == self.capacity
            numbers += tensor.data_ptr(), batch * heads, width * tensor.element_size()
        library.ouroboros_keep(
            (c_int64 * len(numbers))(*numbers),
            c_int64(len(tensors)),
            c_int64(self.capacity),
            c_int64(start),
            (c_int64 * len(rows))(*rows),
            c_int64(len(rows)),
        )
        return True
