"""Weights of a head in its file: in bfloat16, or matrices in 8 bits with a factor for each row."""

from __future__ import annotations

from pathlib import Path

import torch

SCALE = ".scale"
"""What follows a matrix's name in that of the factors of its rows."""


def write(state: dict[str, torch.Tensor], file: Path, bits: int = 16) -> None:
    """Write weights in bfloat16, or their matrices in 8 bits."""
    from safetensors.torch import save_file

    given = {name: value.detach().cpu() for name, value in state.items()}
    kept = {}
    for name, value in (rounded(given) if bits == 8 else given).items():
        short = value.is_floating_point() and not name.endswith(SCALE)
        kept[name] = (value.bfloat16() if short else value).contiguous()
    save_file(kept, file, metadata={"format": "pt"})


def rounded(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Every matrix, alone or in a stack, in whole numbers from -127 to 127, with a factor for each
    row; biases stay as they are."""
    found: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        found[name] = weight
        if weight.ndim >= 2 and weight.is_floating_point() and not name.endswith("bias"):
            largest = weight.float().abs().amax(-1, keepdim=True)
            factor = (largest / 127).clamp_min(torch.finfo(torch.float32).tiny)
            found[name] = (weight.float() / factor).round().to(torch.int8)
            found[name + SCALE] = factor
    return found


def read(file: Path) -> dict[str, torch.Tensor]:
    """The weights in a file, those that are rounded as numbers in bfloat16 again, so that every
    pass multiplies the same ones. Raises OSError or SafetensorError."""
    from safetensors.torch import load_file

    state = load_file(file)
    factors = {name: state.pop(name) for name in [*state] if name.endswith(SCALE)}
    for name, factor in factors.items():
        matrix = name.removesuffix(SCALE)
        state[matrix] = (state[matrix].float() * factor).bfloat16()
    return state
