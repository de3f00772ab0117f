"""A parallel drafter: one layer guesses several tokens in one pass, from mask tokens (ParallelSpec,
arXiv 2410.05589, section 3).

It is the block drafter of `dspark.py` with one layer, which reads the target's last hidden state
only, and without correction and confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ouroboros_core.models.heads.dspark import DSparkDrafter, DSparkHead
from ouroboros_core.models.heads.layer import LayerConfig
from ouroboros_core.models.heads.recipes import ParallelRecipe
from ouroboros_core.tree import TokenTree


@dataclass(frozen=True)
class ParallelConfig(LayerConfig):
    """Sizes of the drafter.

    group  tokens of one pass, one more than masks
    """

    layers: ClassVar[int] = 1
    rank: ClassVar[int] = 0
    depths: ClassVar[tuple[int, ...]] = ()
    group: int

    @property
    def block(self) -> int:
        return self.group


class ParallelHead(DSparkHead):
    """The weights of the layer, the joining matrix, and the masks."""

    Recipe, Config, estimates = ParallelRecipe, ParallelConfig, False

    def renamed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Rename also the weights of a drafter that was stored before it was a block drafter."""
        first = {name for name, _ in self.layers[0].named_children()}
        names = {name: f"layers.0.{name}" for name in state if name.split(".")[0] in first}
        return super().renamed({names.get(name, name): state[name] for name in state})


class ParallelDrafter(DSparkDrafter):
    """The drafter of one target as a GroupDrafter: without a correction, outputs after a node
    depend on its depth only."""

    weights = ParallelHead

    @property
    def group(self) -> int:
        return self.block

    def rows_for(self, tree: TokenTree) -> int:
        return min(self.block, max(tree.depths) + 1)
