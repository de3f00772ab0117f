"""A decoder layer of the Llama family that is trained for a target: its weights, and the pass that
training and drafting share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ouroboros_core.models.engines.compact import norm
from ouroboros_core.models.engines.passes import Engine, Product, draft_product
from ouroboros_core.models.heads.head import Head, HeadConfig

Rows = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [..., heads, rows, width of a head]."""


@dataclass(frozen=True)
class LayerConfig(HeadConfig):
    """Sizes of the layer.

    embedding     width of the target's token embeddings
    heads, key_value_heads  of self-attention
    rope_theta    base of the rotary positions
    """

    embedding: int
    intermediate: int
    heads: int
    key_value_heads: int
    rope_theta: float
    eps: float


def layer_modules(config: LayerConfig) -> dict[str, nn.Module]:
    """Return the weights of self-attention and MLP, with a norm before each."""
    width, shared = config.width, config.key_value_heads * (config.width // config.heads)
    return {
        "query": matrix(width, width),
        "key": matrix(width, shared),
        "value": matrix(width, shared),
        "out": matrix(width, width),
        "gate": matrix(width, config.intermediate),
        "up": matrix(width, config.intermediate),
        "down": matrix(config.intermediate, width),
        "norm_own": nn.RMSNorm(width, config.eps),
        "norm_middle": nn.RMSNorm(width, config.eps),
    }


def products(modules: Mapping[str, Any], engine: Engine, eps: float) -> dict[str, Product]:
    """Return matrices and norms as products of the target's engine, over one text; for drafting."""

    def laid_out(module: nn.RMSNorm | nn.Linear) -> Product:
        is_norm = isinstance(module, nn.RMSNorm)
        apply = norm(module.weight, eps) if is_norm else draft_product(engine, module.weight)
        return lambda x: apply(x[0])[None]

    return {name: laid_out(module) for name, module in modules.items()}


class OneLayer(Head):
    """The weights of a layer, and the norm after it."""

    config: LayerConfig

    def __init__(self, config: LayerConfig, outputs: Sequence[int]) -> None:
        super().__init__(config, outputs)
        for name, module in layer_modules(config).items():
            self.add_module(name, module)
        self.norm_last = nn.RMSNorm(config.width, config.eps)

    @property
    def maps(self) -> dict[str, Any]:
        """The modules by name; for training."""
        return dict(self.named_children())

    def products(self, engine: Engine) -> dict[str, Product]:
        """Return the modules as products of the target's engine, over one text; for drafting."""
        return products(self.maps, engine, self.config.eps)


def matrix(inputs: int, results: int) -> nn.Linear:
    return nn.Linear(inputs, results, bias=False)


def turned(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Return x [..., rows, width] rotated by the positions [..., rows], first half against second
    half."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angles = positions[..., None].float() / theta**steps
    cos, sin = (torch.cat([turn, turn], -1).to(x.dtype) for turn in (angles.cos(), angles.sin()))
    first, second = torch.split(x, [half, x.shape[-1] - half], -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Return x [..., rows, heads * width] as [..., heads, rows, width]."""
    return x.view(*x.shape[:-1], heads, -1).transpose(-3, -2)


def attend(q: torch.Tensor, rows: Rows, mask: torch.Tensor | None) -> torch.Tensor:
    """Return mixed values [batch, rows, heads * width] of queries [batch, heads, rows, width].
    Several heads may share keys and values.

    mask  [rows, held], or [batch, 1, rows, held], True for the keys that a row sees
    """
    batch, heads, count, width = q.shape
    shared = rows[0].shape[1]
    folded = q.reshape(batch, shared, -1, width)
    folded_mask = None
    if mask is not None:
        folded_mask = mask.repeat(*[1] * (mask.ndim - 2), heads // shared, 1)
    mixed = F.scaled_dot_product_attention(folded, *rows, attn_mask=folded_mask)
    return mixed.reshape(batch, heads, count, width).transpose(1, 2).flatten(2)


def own_rows(
    config: LayerConfig, maps: Mapping[str, Any], x: torch.Tensor, positions: torch.Tensor
) -> Rows:
    """Return keys and values of self-attention for a layer's inputs [batch, rows, width]."""
    normed = maps["norm_own"](x)
    keys = split(maps["key"](normed), config.key_value_heads)
    values = split(maps["value"](normed), config.key_value_heads)
    return turned(keys, positions, config.rope_theta), values


def after_layer(
    config: LayerConfig,
    maps: Mapping[str, Any],
    x: torch.Tensor,
    positions: torch.Tensor,
    rows: Rows,
    mask: torch.Tensor | None,
    cross: Product | None = None,
) -> torch.Tensor:
    """Return states [batch, rows, width] after the layer, for its inputs [batch, rows, width] at
    `positions`.

    rows   keys and values of self-attention, with the rows of these inputs
    mask   [rows, held], True for the keys that a row sees; None: all
    cross  map of the states after self-attention, whose result is added to them
    """
    q = split(maps["query"](maps["norm_own"](x)), config.heads)
    x = x + maps["out"](attend(turned(q, positions, config.rope_theta), rows, mask))
    x = x if cross is None else x + cross(x)
    normed = maps["norm_middle"](x)
    result: torch.Tensor = x + maps["down"](F.silu(maps["gate"](normed)) * maps["up"](normed))
    return result
