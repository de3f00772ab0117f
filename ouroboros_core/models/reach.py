"""How far a model sees: the sliding windows of its layers and the positions that it has.

A configuration names windows that some architectures never read, so the model itself is asked: a
few rows behind a long cache, by the model's own mask and by ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.kv_cache import TreeCache, TreeCacheLayer

UNLIMITED = 2**20
"""Positions of a model that names no limit."""

ROWS = 3
"""New rows of a pass that asks a model for its windows."""

MARGIN = 8
"""Cached rows before and behind the edge of a window that weigh more than the others."""

SAME = {torch.float16: 0.03, torch.bfloat16: 0.04}
"""Largest relative difference between two masks that rounding explains in half precision."""


@dataclass(frozen=True)
class Windows:
    """How far back the layers of a model see.

    size   positions, the row's own included; None: all of them
    mixed  whether only the layers of type "sliding_attention" have the window
    """

    size: int | None = None
    mixed: bool = False


_windows: WeakKeyDictionary[PreTrainedModel, dict[tuple[int, ...], Windows]] = WeakKeyDictionary()
"""Windows of models that were asked, by the sizes that their configurations name."""


def windows_of(model: PreTrainedModel, max_length: int) -> Windows:
    """Return the windows of a model, asked once for each model.

    max_length  positions of a text; a window as long as that is none. Raises UnsupportedModel where
                no window that the configuration names gives the model's own pass.
    """
    config = model.config.get_text_config(decoder=True)
    sizes = tuple(sorted({size for size in _named_sizes(config) if size < max_length}))
    if not sizes:
        return Windows()
    by_sizes = _windows.setdefault(model, {})
    if sizes not in by_sizes:
        by_sizes[sizes] = _ask(model, sizes, max_length)
    return by_sizes[sizes]


def _named_sizes(config: Any) -> Iterator[int]:
    """Yield every number in a configuration that may be a window."""
    for name, value in config.to_dict().items():
        counts = any(word in name for word in ("layers", "pattern", "num_"))
        window = "window" in name or name in ("local_attention", "attention_chunk_size")
        if window and not counts and type(value) is int and value > 0:
            yield value


@torch.inference_mode()
def _ask(model: PreTrainedModel, sizes: tuple[int, ...], max_length: int) -> Windows:
    """Return the windows with which our masks and the model's give the same rows."""
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ())
    mixed = {"full_attention", "sliding_attention"} <= kinds
    # The configuration's claim comes first, so it wins if it is right.
    claims = [Windows(size, mixed=True) for size in sizes if mixed]
    claims += [*(Windows(size) for size in sizes), Windows()]
    past = max(0, min(sizes[-1] + MARGIN, max_length - ROWS - 1))
    try:
        expected = _rows_behind(model, sizes, past, None)
    except Exception as error:  # a foreign model can fail in any way
        raise UnsupportedModel(
            f"the pass of {type(model).__name__} over a long cache fails ({type(error).__name__})"
        ) from error
    for windows in claims:
        masks = Masks(model.dtype, windows)
        try:
            ours = _rows_behind(model, sizes, past, masks)
        except Exception:  # a mask that this model's code cannot read is not the right one
            continue
        differences = (ours - expected).norm(dim=-1) / expected.norm(dim=-1)
        # The median: in half precision a row may go through another expert.
        if differences.median() <= SAME.get(model.dtype, 1e-3):
            return windows
    named = ", ".join(map(str, sizes))
    raise UnsupportedModel(
        f"no attention window of {named} tokens gives the pass of {type(model).__name__}, whose "
        "configuration names it"
    )


def _rows_behind(
    model: PreTrainedModel, sizes: tuple[int, ...], past: int, masks: Masks | None
) -> torch.Tensor:
    """Return the logits [ROWS, vocabulary] of a few rows behind `past` cached ones; by the model's
    own mask where `masks` is None."""
    device = model.get_input_embeddings().weight.device
    positions = torch.arange(past, past + ROWS, device=device)
    mask: Any = torch.ones(1, past + ROWS, dtype=torch.long, device=device)
    if masks is not None:
        mask = masks.of(past, positions, np.tri(ROWS, dtype=np.bool_))
    logits: torch.Tensor = model(
        input_ids=torch.arange(1, ROWS + 1, device=device)[None],
        attention_mask=mask,
        position_ids=positions[None],
        past_key_values=_LongCache(model.config, sizes, past),
        use_cache=True,
    ).logits[0]
    return logits.double()


class _LongCache(TreeCache):
    """A cache that holds many rows from the beginning, and no memory for them."""

    def __init__(self, config: Any, sizes: tuple[int, ...], past: int) -> None:
        layers = int(config.get_text_config(decoder=True).num_hidden_layers)
        super().__init__(layers)
        self.layers = [_LongLayer(sizes, past) for _ in range(layers)]


class _LongLayer(TreeCacheLayer):
    """Rows with equal keys, and values that differ most where a window ends."""

    def __init__(self, sizes: tuple[int, ...], past: int) -> None:
        super().__init__()
        self.length = self.past = past
        self.sizes = sizes

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows that were there from the beginning and the new ones, and keep neither."""
        batch, heads, rows, width = value_states.shape
        self.length += rows
        noise = torch.Generator().manual_seed(self.past)
        values = torch.randn(self.past, width, generator=noise)
        for size in self.sizes:
            edge = max(0, self.past - size)
            values[max(0, edge - MARGIN) : edge + MARGIN] *= min(self.past, 4096) / MARGIN
        earlier = values.to(value_states).expand(batch, heads, -1, -1)
        keys = key_states.new_zeros(*key_states.shape[:2], self.past, key_states.shape[3])
        return torch.cat([keys, key_states], 2), torch.cat([earlier, value_states], 2)


class Masks:
    """Makes the masks of one model, whose layers may see a sliding window only."""

    def __init__(self, dtype: torch.dtype, windows: Windows) -> None:
        self._dtype, self._windows = dtype, windows

    def of(
        self,
        past: int,
        positions: torch.Tensor,
        sees: npt.NDArray[np.bool_],
        columns: torch.Tensor | None = None,
    ) -> Any:
        """Additive float masks [1, 1, rows, past + rows]; by layer type where only some layers have
        a sliding window.

        positions [rows] on the model's device; sees [rows, rows] is visibility among the new rows,
        all of which see the `past` rows that are cached. With `columns`, the positions of more rows
        that are cached behind those, sees is [rows, more + rows]. Float in the model's dtype,
        because eager attention adds a bool mask as 0 and 1.
        """
        device, lowest = positions.device, torch.finfo(self._dtype).min
        mask = torch.zeros(1, 1, len(sees), past + sees.shape[1], dtype=self._dtype, device=device)
        mask[0, 0, :, past:].masked_fill_(~torch.from_numpy(sees).to(device), lowest)
        size = self._windows.size
        if size is None:
            return mask
        before = [] if columns is None else [columns]
        keys = torch.cat([torch.arange(past, device=device), *before, positions])
        windowed = mask.masked_fill(positions[:, None] - keys[None, :] >= size, lowest)
        if self._windows.mixed:
            return {"full_attention": mask, "sliding_attention": windowed}
        return windowed


def longest_text(model: PreTrainedModel) -> int:
    """Return the number of positions that a model has.

    A model with rotary positions has those that its declared scaling gives (yarn, linear, llama3):
    the factor times the original number, unless the configuration names the product. Beyond the
    original number, dynamic scaling and longrope rotate all rows otherwise, and cached rows would
    not fit.
    """
    config = model.config.get_text_config(decoder=True)
    named = getattr(config, "max_position_embeddings", None) or UNLIMITED
    rope = getattr(config, "rope_parameters", None) or {}
    if not any(name.endswith("inv_freq") for name, _ in model.named_buffers()):
        return int(named)  # positions are rows of a table
    scalings = [rope] if "rope_type" in rope else [r for r in rope.values() if r]
    return min((_scaled(config, scaling, named) for scaling in scalings), default=int(named))


def _scaled(config: Any, rope: Mapping[str, Any], named: int) -> int:
    """Return the number of positions under one rope scaling."""
    original = rope.get("original_max_position_embeddings") or getattr(
        config, "original_max_position_embeddings", None
    )
    kind = rope.get("rope_type", "default")
    if kind in ("dynamic", "longrope"):
        return int(min(named, original or named))
    if kind in ("yarn", "linear", "llama3") and original and original >= named:
        return int(rope.get("factor", 1.0) * original)
    return int(named)
