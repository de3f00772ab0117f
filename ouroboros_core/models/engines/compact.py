"""A compact forward pass for the Llama family: Llama, Mistral, Qwen2, Qwen3.

The arithmetic is the same as in transformers' models, with less time between the matrix products.
Queries, keys and values are one product, gate and up are one product, weights are laid
out beforehand for the CPU's matrix kernels (oneDNN), keys and values are written in place, heads
that share keys and values are rows of one attention, and the output matrix can be a part of the
model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from ouroboros_core.models.kv_cache import TreeCache, attention_shape
from ouroboros_core.models.reach import longest_text, windows_of
from ouroboros_core.models.skips import NOTHING, Skips

FAMILY = {"llama", "mistral", "qwen2", "qwen3"}
"""The supported values of `model_type`."""

Product = Callable[[torch.Tensor], torch.Tensor]

BLOCK = 64
"""Rows of a long chunk whose attention is computed at once on a CPU."""

Block = tuple[int, int, torch.Tensor | None]
"""Rows from the first number up to the second, and their mask over the keys up to the last of
them."""


States = tuple[torch.Tensor, list[torch.Tensor]]
"""Normalised last hidden states [rows, width], and those after some layers."""


@dataclass(frozen=True)
class Rows:
    """Rows of one pass, which a decoder appends to a cache.

    x          embeddings [rows, width]
    positions  [rows], all below `longest`
    sees       [rows, above + rows]: visibility among the last `above` cached rows and the new ones;
               a new row sees all earlier cached rows. None: a row sees all rows before it
    depths     numbers of layers after which the hidden states are returned, too
    beside     [rows, any width]: stands before the normalised hidden states in the input of the
               product for queries, keys and values, whose weight is wider by that much
    without    sublayers to skip; a skipped attention appends no rows
    """

    x: torch.Tensor
    positions: torch.Tensor
    longest: int
    sees: npt.NDArray[np.bool_] | None = None
    depths: Sequence[int] = ()
    beside: torch.Tensor | None = None
    without: Skips = NOTHING


def fits(model: Any) -> bool:
    """Return whether a transformers model is of the family, in the form that is computed here."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILY
        and getattr(config, "hidden_act", None) == "silu"
        and windows_of(model, longest_text(model)).size is None
        and rope.get("rope_type", "default") in ("default", "linear", "llama3")
        and getattr(config, "partial_rotary_factor", None) in (None, 1.0)
        and not hasattr(config, "quantization_config")
        and not hasattr(model, "hf_device_map")
        and not getattr(model, "_tp_size", None)
    )


def product(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """Return the product x [rows, in] -> x @ weight.T + bias [rows, out]; on a CPU in bfloat16 with
    the weight laid out for its kernels."""
    weight = weight.detach()
    if (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    ):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)
        apply = torch.ops.mkldnn._linear_pointwise.default
        return lambda x: apply(x, packed, bias, "none", [], "")
    return lambda x: F.linear(x, weight, bias)


def norm(weight: torch.Tensor, eps: float) -> Product:
    """Return the norm x [rows, width] -> x / sqrt(mean of squares + eps) * weight.

    On a CPU it is the layer norm of [x, -x], which has mean 0 and the mean of squares as variance:
    one kernel instead of seven.
    """
    weight = weight.detach()
    width = len(weight)
    if weight.device.type != "cpu":
        return lambda x: F.rms_norm(x, (width,), weight, eps)
    double, twice = torch.cat([weight, weight]), (2 * width,)
    return lambda x: torch.layer_norm(torch.cat([x, -x], -1), twice, double, None, eps)[:, :width]


def norm_of(module: Any) -> Product:
    """Return a norm of transformers' Llama family; an Identity in its place changes nothing."""
    if isinstance(module, torch.nn.Identity):
        return lambda x: x
    return norm(module.weight, float(module.variance_epsilon))


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
        self.eps = float(layer.post_attention_layernorm.variance_epsilon)
        self.norm_in = norm_of(layer.input_layernorm)
        self.norm_mid = norm_of(layer.post_attention_layernorm)
        self.norm_q = a.q_norm.weight.detach() if hasattr(a, "q_norm") else None
        self.norm_k = a.k_norm.weight.detach() if hasattr(a, "k_norm") else None
        self.heads, self.shared, self.width, self.scale = heads, shared, width, float(a.scaling)

    def attend(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        blocks: Sequence[Block],
        keys: torch.Tensor,
        values: torch.Tensor,
        past: int,
        beside: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return x [rows, model width] after the attention; write keys and values [1, shared heads,
        capacity, width] at past..past+rows. blocks: all rows, in order

        cos, sin [rows, heads + 2 shared heads, width]: values are rotated by 0, so one product does
        for all. beside: as in `Rows`
        """
        rows = len(x)
        q, k, v = self.heads_of(x, cos, sin, beside)
        keys.narrow(2, past, rows).copy_(k)
        values.narrow(2, past, rows).copy_(v)
        mixed = []
        for start, stop, mask in blocks:
            cached = keys.narrow(2, 0, past + stop), values.narrow(2, 0, past + stop)
            mixed.append(self._attention(q[:, :, start:stop], *cached, mask))
        return self._joined(x, mixed[0] if len(mixed) == 1 else torch.cat(mixed, 1))

    def heads_of(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        beside: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries [shared heads, heads / shared heads, rows, width], keys and values [shared
        heads, rows, width]; arguments as in `attend`."""
        rows, heads, shared, width = len(x), self.heads, self.shared, self.width
        states = self.norm_in(x)
        if beside is not None:
            states = torch.cat([beside, states], -1)
        qkv = self.qkv(states).view(rows, heads + 2 * shared, width)
        if self.norm_q is not None and self.norm_k is not None:
            q = F.rms_norm(qkv[:, :heads], self.norm_q.shape, self.norm_q, self.eps)
            k = F.rms_norm(qkv[:, heads : heads + shared], self.norm_k.shape, self.norm_k, self.eps)
            qkv = torch.cat([q, k, qkv[:, heads + shared :]], 1)
        by_head = torch.addcmul(qkv * cos, qkv.roll(width // 2, -1), sin).transpose(0, 1)
        q, k, v = torch.split(by_head, [heads, shared, shared])
        return q.reshape(shared, -1, rows, width), k, v

    def mix(
        self,
        x: torch.Tensor,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return x [rows, model width] plus the attention of the queries of `heads_of` to keys and
        values [1, shared heads, cached, width], with a mask [1, 1, heads / shared heads * rows,
        cached]."""
        return self._joined(x, self._attention(q, keys, values, mask))

    def _attention(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return weighted values [heads, rows, width] for queries [shared heads, heads / shared
        heads, rows, width]."""
        rows = q.shape[2]
        # Query rows of heads with the same keys are stacked: [1, shared heads, heads / shared heads
        # * rows, width].
        queries = q.reshape(1, self.shared, -1, self.width)
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, scale=self.scale
        )
        return mixed.reshape(self.heads, rows, self.width)

    def _joined(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """Return x [rows, model width] plus the output of weighted values [heads, rows, width]."""
        return x + self.out(mixed.transpose(0, 1).reshape(len(x), self.heads * self.width))

    def feed(self, x: torch.Tensor) -> torch.Tensor:
        """Return x [rows, model width] after the MLP."""
        gate, up = self.gate_up(self.norm_mid(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class FusedDecoder:
    """The layers and the last norm of a model of the family, without embeddings and output
    matrix."""

    def __init__(self, body: Any) -> None:
        """body: the transformers base model (`model.base_model`); its weights are read once."""
        config: Any = body.config
        heads, shared, width = attention_shape(config)
        self.layers = [_Layer(layer, heads, shared, width) for layer in body.layers]
        self.groups = heads // shared
        self.shared = shared
        self._like: torch.Tensor = body.layers[0].post_attention_layernorm.weight.detach()
        self.norm = norm_of(body.norm)
        self._rope: Any = body.rotary_emb
        self._tables = self._like.new_empty(2, 0, width)
        self._heads = heads + 2 * shared

    def _turn(self, positions: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and signed sines [rows, heads + 2 shared heads, width] of positions below
        `longest`; 1 and 0 for values."""
        turns = self._angles(positions, longest)[:, :, None].repeat(1, 1, self._heads, 1)
        turns[0, :, -self.shared :], turns[1, :, -self.shared :] = 1, 0
        return turns[0], turns[1]

    def _angles(self, positions: torch.Tensor, longest: int) -> torch.Tensor:
        """Return cosines and signed sines [2, rows, width] of positions below `longest`."""
        if longest > self._tables.shape[1]:
            every = torch.arange(
                max(longest, 2 * self._tables.shape[1], 512), device=self._like.device
            )
            cos, sin = self._rope(self._like[None], every[None])
            sign = torch.ones_like(sin[0])
            sign[:, : sin.shape[-1] // 2] = -1
            self._tables = torch.stack([cos[0], sin[0] * sign])
        angles: torch.Tensor = self._tables[:, positions]
        return angles

    def run(self, rows: Rows, cache: TreeCache) -> States:
        """Append rows to the cache; return their normalised last hidden states and those after
        `rows.depths`."""
        x, depths, without = rows.x, rows.depths, rows.without
        cos, sin = self._turn(rows.positions, rows.longest)
        mask = additive(without.rows(cache), len(x), rows.sees, x)
        blocks = blocks_of(len(x), mask, self.groups)
        states: dict[int, torch.Tensor] = {}
        for index, layer in enumerate(self.layers):
            if index not in without.attention:
                keys, values, past = cache.append(index, len(x), layer.shared, layer.width, x)
                x = layer.attend(x, cos, sin, blocks, keys, values, past, rows.beside)
            if index not in without.mlp:
                x = layer.feed(x)
            states |= {index + 1: x} if index + 1 in depths else {}
        return self.norm(x), [states[depth] for depth in depths]


def blocks_of(rows: int, mask: torch.Tensor | None, groups: int) -> list[Block]:
    """Return the rows of a pass in blocks, with the mask [rows, past + rows] repeated for `groups`
    groups of heads. No row sees a later one, so the keys of a block end with its last row. On a
    GPU, and for few rows, there is one block."""
    if mask is None:
        return [(0, rows, None)]
    at_once = BLOCK if mask.device.type == "cpu" and rows >= 2 * BLOCK else rows
    past = mask.shape[1] - rows
    blocks: list[Block] = []
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        visible = mask[start:stop, : past + stop]
        blocks.append((start, stop, visible.repeat(groups, 1)[None, None]))
    return blocks


def additive(
    past: int, rows: int, sees: npt.NDArray[np.bool_] | None, like: torch.Tensor
) -> torch.Tensor | None:
    """Return the mask [rows, past + rows] for `Rows.sees`; None if a single row sees everything."""
    if sees is None:
        if rows == 1:
            return None
        sees = np.tri(rows, dtype=np.bool_)
    mask = like.new_zeros(rows, past + rows)
    hidden = ~torch.from_numpy(sees).to(mask.device)
    mask[:, past + rows - sees.shape[1] :].masked_fill_(hidden, torch.finfo(mask.dtype).min)
    return mask
