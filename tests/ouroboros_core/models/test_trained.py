"""How trained heads lie in a file."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from ouroboros_core.models.trained import WEIGHTS, rounded, stored


def test_in_eight_bits_a_matrix_is_the_same_within_half_a_step_of_its_row(tmp_path: Path) -> None:
    """The oracle is the matrix itself; a row of zeros stays one, and what is no matrix is kept."""
    torch.manual_seed(0)
    matrix = torch.randn(40, 256) * torch.rand(40, 1) * 5
    matrix[7] = 0
    state = {"matrix": matrix, "norm": torch.randn(256), "ids": torch.arange(9, dtype=torch.int32)}
    kept = rounded(state)
    save_file({name: value.contiguous() for name, value in kept.items()}, tmp_path / WEIGHTS)
    assert (tmp_path / WEIGHTS).stat().st_size < 0.6 * 2 * matrix.numel() + 2000
    found = stored(tmp_path)
    assert found.keys() == state.keys()
    assert torch.equal(found["norm"], state["norm"]) and torch.equal(found["ids"], state["ids"])
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert bool(((found["matrix"] - matrix).abs() <= 0.5001 * step).all())
    assert not found["matrix"][7].any()
    again = rounded(found)
    assert torch.equal(again["matrix"], kept["matrix"]), "what was rounded is not rounded further"
