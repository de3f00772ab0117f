"""Weights in the blocks of a GGUF file, laid out for the native pass.

A block holds 32 inputs of one output: in the format Q8_0 a scale and 32 numbers of 8 bits, in Q4_1
a scale, the least value and 32 numbers of 4 bits. The pass makes of them the bfloat16 weights that
the loader makes, so that it reads fewer bytes and computes the same to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.errors import InvalidInput

INPUTS = 32
"""Inputs of a block."""

PANEL = 32
"""Outputs of a panel of weights."""

KINDS = {"Q4_1": 1, "Q8_0": 2}
"""The formats that the pass reads, by their numbers in blocks.h; 0 is bfloat16."""

ROUNDED = 3
"""The number of a draft's format: 8 bits and a scale in float32."""

ROUNDED_BYTES = 4 + INPUTS
"""Bytes of a block of a draft's weight."""

BYTES = {"Q4_1": 2 + 2 + INPUTS // 2, "Q8_0": 2 + INPUTS}
"""Bytes of a block in the file."""


@dataclass(frozen=True)
class Blocks:
    """A weight [out, in] as the file stores it.

    kind  one of KINDS
    data  [out, in / 32, BYTES[kind]], uint8
    """

    kind: str
    data: npt.NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"blocks of kind {self.kind}: only {', '.join(KINDS)} are read")
        if self.data.ndim != 3 or self.data.shape[2] != BYTES[self.kind]:
            raise InvalidInput(
                f"{self.kind} blocks of shape {self.data.shape}: [out, in / 32, "
                f"{BYTES[self.kind]}] is expected"
            )

    def rows(self, outputs: npt.NDArray[np.intp] | slice) -> Blocks:
        """Return the blocks of some outputs, in that order."""
        return replace(self, data=self.data[outputs])

    def packed(self) -> torch.Tensor:
        """Return the layout that blocks.h reads: [panels, in / 32, bytes of 32 blocks], uint8."""
        outer, groups, size = self.data.shape
        padded = -(-outer // PANEL) * PANEL
        data = self.data
        if padded > outer:
            data = np.concatenate([data, np.zeros((padded - outer, groups, size), np.uint8)])
        # scales and pairs of inputs in two bytes each: [panels, in / 32, scales or pairs, 32]
        words = data.view(np.uint16).reshape(-1, PANEL, groups, size // 2).transpose(0, 2, 3, 1)
        if self.kind == "Q8_0":
            return torch.from_numpy(_bytes(words))
        scales, numbers = words[..., :2, :], np.ascontiguousarray(words[..., 2:, :])
        # Inputs 0-15 are in the lower bits, 16-31 in the upper bits. The panel's outputs 0-7 and
        # 16-23 are moved into the lower bits, 8-15 and 24-31 into the upper bits.
        pairs = np.concatenate([numbers & 0x0F0F, numbers >> 4 & 0x0F0F], axis=-2)
        halves = pairs.reshape(*pairs.shape[:-1], 2, 2, PANEL // 4)
        merged = halves[..., 0, :] | halves[..., 1, :] << 4
        return torch.from_numpy(np.concatenate([_bytes(scales), _bytes(merged)], axis=-1))


def _bytes(words: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint8]:
    """[panels, in / 32, ...] -> [panels, in / 32, bytes]."""
    flat = np.ascontiguousarray(words).reshape(*words.shape[:2], -1)
    return flat.view(np.uint8)


def joined(weights: Sequence[Blocks | None]) -> Blocks | None:
    """Return weights with their outputs concatenated; None if a weight is missing, or if kinds or
    inputs differ."""
    present = [blocks for blocks in weights if blocks is not None]
    shapes = {(blocks.kind, blocks.data.shape[1]) for blocks in present}
    if len(present) < len(weights) or len(shapes) != 1:
        return None
    return replace(present[0], data=np.concatenate([blocks.data for blocks in present]))


BlocksOf = Mapping[str, Blocks]
"""A model's weights in blocks by their names in a GGUF file, without `.weight`: `blk.0.attn_q`,
..., `output`."""
