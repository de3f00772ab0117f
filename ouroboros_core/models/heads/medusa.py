"""Medusa heads: each guesses the token one place further on, all from one hidden state (arXiv
2401.10774, section 2.1).

Head k is one residual block, x + SiLU(W x + b), on the target's last hidden state, and an output
matrix. The paper trains an output matrix for each head, which begins as the target's; here all
heads share the target's own, so that five heads take the bytes of five blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import product
from ouroboros_core.models.heads.head import DepthDrafter, Head, HeadConfig
from ouroboros_core.models.heads.recipes import MedusaRecipe

RANKS = 10
"""Likeliest tokens of a head that may be in a tree, as in the authors' code."""


@dataclass(frozen=True)
class MedusaConfig(HeadConfig):
    """What the heads are.

    heads       how many
    accuracies  of each head, how often its i-th likeliest token is the target's choice, on texts
                that were held out; empty where that was not measured
    """

    heads: int
    accuracies: tuple[tuple[float, ...], ...] = ()


class MedusaHeads(Head):
    """The residual blocks, which begin as the identity (section 2.1)."""

    Recipe, Config = MedusaRecipe, MedusaConfig
    config: MedusaConfig

    def __init__(self, config: MedusaConfig, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        self.weight = nn.Parameter(torch.zeros(config.heads, config.width, config.width))
        self.bias = nn.Parameter(torch.zeros(config.heads, config.width))

    @property
    def shape(self) -> str:
        return (
            f"{self.config.heads} residual blocks of width {self.config.width}, {super().shape}; "
            "the output matrix is the target's"
        )

    def block(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [rows, width] after the block of one head."""
        return hidden + F.silu(F.linear(hidden, self.weight[index], self.bias[index]))


class MedusaDrafter(DepthDrafter):
    """The heads of one target as a RankedDrafter: after a node of depth d speaks head d + 1."""

    weights = MedusaHeads

    def __init__(self, head: MedusaHeads, target: CausalLM, name: str = MedusaRecipe.kind) -> None:
        super().__init__(head, target, name)
        target.keep_features()
        self._heads, self._width = head.config.heads, head.config.width
        self.accuracies = head.config.accuracies or assumed(self._heads)
        self._blocks = product(
            target.engine, head.weight.flatten(0, 1), head.bias.detach().flatten()
        )

    @torch.inference_mode()
    def guesses(self, context: tuple[int, ...], levels: int) -> torch.Tensor:
        hidden = self.target.features(context)[-1:, : self._width]
        self.passes += 1
        self.rows += 1
        blocks = self._blocks(hidden).view(self._heads, -1)
        return (hidden + F.silu(blocks))[: min(levels, self._heads)]


def assumed(heads: int) -> tuple[tuple[float, ...], ...]:
    """Accuracies of heads that were not measured: round numbers that fall with the place by a fifth
    each time, and with the square of the rank."""
    return tuple(
        tuple(0.5 * 0.8**place / rank**2 for rank in range(1, RANKS + 1)) for place in range(heads)
    )
