"""Attention masks: which of the new rows see which, as a Hugging Face model wants to be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


class Masks:
    """Makes the masks of one model, whose layers may see a sliding window only."""

    def __init__(self, dtype: torch.dtype, window: int | None, layer_types: Iterable[str]) -> None:
        """window: how many positions back a sliding layer sees; layer_types: the model's, where
        they differ."""
        self._dtype, self._window = dtype, window
        self._layer_types = set(layer_types) if window else set()

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
        if not self._window:
            return mask
        before = [] if columns is None else [columns]
        keys = torch.cat([torch.arange(past, device=device), *before, positions])
        windowed = mask.masked_fill(positions[:, None] - keys[None, :] >= self._window, lowest)
        if self._layer_types == {"full_attention"}:
            return mask
        if "full_attention" in self._layer_types:
            return {"full_attention": mask, "sliding_attention": windowed}
        return windowed


def packed_visibility(missing: int, ancestors: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Visibility among `missing` context rows followed by a tree's rows: causal, then everything
    before plus ancestors."""
    if not missing:
        return ancestors
    rows = missing + len(ancestors)
    sees = np.tri(rows, dtype=np.bool_)
    sees[missing:, missing:] = ancestors
    return sees
