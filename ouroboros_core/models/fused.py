"""A compact forward pass for the Llama family: Llama, Mistral, Qwen2, Qwen3.

The arithmetic is that of transformers' models; what is left out is the time between the matrix products. Queries, keys and values
are one product, gate and up are one product, weights are laid out beforehand for the CPU's matrix kernels (oneDNN), keys and
values are written in place, heads that share keys and values are rows of one attention, and the output matrix can be a part of
the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from ouroboros_core.models.kv_cache import TreeCache

FAMILY = {"llama", "mistral", "qwen2", "qwen3"}
"""Values of `model_type` whose layers are the ones computed here."""

Product = Callable[[torch.Tensor], torch.Tensor]


def fits(model: Any) -> bool:
    """Whether a transformers model (with or without its output layer) is of the family, in the one form that is computed here."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILY
        and getattr(config, "hidden_act", None) == "silu"
        and not getattr(config, "sliding_window", None)
        and rope.get("rope_type", "default") in ("default", "linear", "llama3")
        and getattr(config, "partial_rotary_factor", None) in (None, 1.0)
        and not hasattr(config, "quantization_config")
    )


def product(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """x [rows, in] -> x @ weight.T + bias [rows, out]; on a CPU in bfloat16 with the weight laid out for its kernels."""
    weight = weight.detach()
    if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)
        apply = torch.ops.mkldnn._linear_pointwise.default
        return lambda x: apply(x, packed, bias, "none", [], "")
    return lambda x: F.linear(x, weight, bias)


class _Layer:
    """One decoder layer."""

    def __init__(self, layer: Any, heads: int, shared: int, width: int) -> None:
        a, m = layer.self_attn, layer.mlp
        biases = [p.bias for p in (a.q_proj, a.k_proj, a.v_proj)]
        bias = torch.cat(biases).detach() if biases[0] is not None else None
        self.qkv = product(torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]), bias)
        self.out = product(a.o_proj.weight, a.o_proj.bias)
        self.gate_up = product(torch.cat([m.gate_proj.weight, m.up_proj.weight]))
        self.down = product(m.down_proj.weight)
        self.norm_in = layer.input_layernorm.weight.detach()
        self.norm_mid = layer.post_attention_layernorm.weight.detach()
        self.eps = float(layer.input_layernorm.variance_epsilon)
        self.norm_q = a.q_norm.weight.detach() if hasattr(a, "q_norm") else None
        self.norm_k = a.k_norm.weight.detach() if hasattr(a, "k_norm") else None
        self.heads, self.shared, self.width, self.scale = heads, shared, width, float(a.scaling)

    def run(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
        keys: torch.Tensor,
        values: torch.Tensor,
        past: int,
    ) -> torch.Tensor:
        """x [rows, model width]; keys, values [1, shared heads, room, width], written at past..past+rows."""
        rows, heads, shared, width = len(x), self.heads, self.shared, self.width
        qkv = self.qkv(F.rms_norm(x, self.norm_in.shape, self.norm_in, self.eps)).view(rows, heads + 2 * shared, width)
        qk = qkv[:, : heads + shared]
        if self.norm_q is not None and self.norm_k is not None:
            q = F.rms_norm(qk[:, :heads], self.norm_q.shape, self.norm_q, self.eps)
            qk = torch.cat([q, F.rms_norm(qk[:, heads:], self.norm_k.shape, self.norm_k, self.eps)], 1)
        turned = qk.view(rows, heads + shared, 2, width // 2).flip(2).view(rows, heads + shared, width)
        qk = torch.addcmul(qk * cos, turned, sin)
        end = past + rows
        keys[0, :, past:end] = qk[:, heads:].transpose(0, 1)
        values[0, :, past:end] = qkv[:, heads + shared :].transpose(0, 1)
        # Query rows of heads that share keys lie behind one another: [1, shared, heads / shared * rows, width].
        q = qk[:, :heads].transpose(0, 1).reshape(1, shared, -1, width)
        mixed = F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], attn_mask=mask, scale=self.scale)
        mixed = mixed.view(heads, rows, width).transpose(0, 1).reshape(rows, heads * width)
        x = x + self.out(mixed)
        gate, up = self.gate_up(F.rms_norm(x, self.norm_mid.shape, self.norm_mid, self.eps)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class FusedDecoder:
    """The layers and the last norm of a model of the family, without embeddings and output matrix."""

    def __init__(self, body: Any) -> None:
        """body: the transformers base model (`model.base_model`); its weights are read once, later changes do not show."""
        config: Any = body.config
        heads, shared = config.num_attention_heads, config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.layers = [_Layer(layer, heads, shared, width) for layer in body.layers]
        self.groups = heads // shared
        self.norm: torch.Tensor = body.norm.weight.detach()
        self.eps = self.layers[0].eps
        self._rope: Any = body.rotary_emb
        self._tables = self.norm.new_empty(2, 0, width)

    def _turn(self, positions: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines [rows, 1, width] of positions, all below `longest`."""
        if longest > self._tables.shape[1]:
            every = torch.arange(max(longest, 2 * self._tables.shape[1], 512), device=self.norm.device)
            cos, sin = self._rope(self.norm[None], every[None])
            sign = torch.ones_like(sin[0])
            sign[:, : sin.shape[-1] // 2] = -1
            self._tables = torch.stack([cos[0], sin[0] * sign])
        return self._tables[0, positions].unsqueeze(1), self._tables[1, positions].unsqueeze(1)

    def run(
        self, x: torch.Tensor, positions: torch.Tensor, longest: int, mask: torch.Tensor | None, cache: TreeCache
    ) -> torch.Tensor:
        """Normalised last hidden states [rows, width] of rows appended to the cache.

        x          embeddings [rows, width]
        positions  [rows], all below `longest`
        mask       additive [rows, cached + rows]; None: every row sees everything, which is right for a single one
        """
        cos, sin = self._turn(positions, longest)
        tiled = None if mask is None else mask.repeat(self.groups, 1)[None, None]
        for index, layer in enumerate(self.layers):
            keys, values, past = cache.append(index, len(x), layer.shared, layer.width, x)
            x = layer.run(x, cos, sin, tiled, keys, values, past)
        return F.rms_norm(x, self.norm.shape, self.norm, self.eps)
