"""Medusa heads: each guesses the token one place further on, all from one hidden state (arXiv
2401.10774, section 2.1).

Head k is one residual block, x + SiLU(W x + b), on the target's last hidden state, and an output
matrix. The paper trains an output matrix for each head, which begins as the target's. Here all
heads share the target's matrix, so that five heads take the bytes of five blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import draft_product
from ouroboros_core.models.heads.head import DepthDrafter, Head, HeadConfig
from ouroboros_core.models.heads.recipes import MedusaRecipe

RANKS = 10
"""Number of a head's likeliest tokens that may be in a tree, as in the authors' code."""


@dataclass(frozen=True)
class MedusaConfig(HeadConfig):
    """Sizes and measured accuracies.

    heads       number of heads
    accuracies  of each head, the share of held-out positions where its i-th likeliest token is
                the target's choice; empty if it was not measured
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
        """Return hidden states [rows, width] after the block of one head."""
        return hidden + F.silu(F.linear(hidden, self.weight[index], self.bias[index]))


class MedusaDrafter(DepthDrafter):
    """The heads of one target as a RankedDrafter: head d + 1 has the outputs after a node of depth
    d."""

    weights = MedusaHeads

    def __init__(self, head: MedusaHeads, target: CausalLM, name: str = MedusaRecipe.kind) -> None:
        super().__init__(head, target, name)
        target.keep_features()
        self._heads, self._width = head.config.heads, head.config.width
        self.accuracies = head.config.accuracies or assumed(self._heads)
        self._blocks = draft_product(
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
    """Return accuracies of heads that were not measured: round numbers that fall by a fifth with
    each head, and with the square of the rank."""
    return tuple(
        tuple(0.5 * 0.8**index / rank**2 for rank in range(1, RANKS + 1)) for index in range(heads)
    )
