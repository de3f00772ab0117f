"""How a layer that is trained for a target begins: with the target's measures, and where it is of
type llama with weights of its layers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from ouroboros_core.models.heads.eagle import signature
from ouroboros_core.models.kv_cache import attention_shape, layer_configs
from ouroboros_core.models.layer import OneLayer


def layer_of(target: PreTrainedModel) -> dict[str, Any]:
    """The fields of a `LayerConfig`, but for the target's name."""
    config = target.config.get_text_config(decoder=True)
    width = target.get_output_embeddings().weight.shape[1]
    layer = layer_configs(config)[-1]
    heads, shared, _ = attention_shape(layer)
    rope = getattr(config, "rope_parameters", None) or {}
    heads = next(n for n in range(heads, 0, -1) if width % (2 * n) == 0)
    return {
        "signature": signature(target),
        "width": width,
        "embedding": target.get_input_embeddings().weight.shape[1],
        "intermediate": getattr(layer, "intermediate_size", None) or 4 * width,
        "heads": heads,
        "key_value_heads": shared if heads % shared == 0 else heads,
        "rope_theta": float(rope.get("rope_theta") or 10_000.0),
        "eps": float(getattr(config, "rms_norm_eps", None) or 1e-6),
    }


def begin_as(head: OneLayer, attention: Any, mlp: Any, last_norm: Any) -> None:
    """Take self-attention of one layer of a Llama, the MLP of another, and a norm behind it."""
    for name, theirs in {
        "query": attention.self_attn.q_proj,
        "key": attention.self_attn.k_proj,
        "value": attention.self_attn.v_proj,
        "out": attention.self_attn.o_proj,
        "norm_own": attention.input_layernorm,
        "gate": mlp.mlp.gate_proj,
        "up": mlp.mlp.up_proj,
        "down": mlp.mlp.down_proj,
        "norm_middle": mlp.post_attention_layernorm,
        "norm_last": last_norm,
    }.items():
        take(head, name, theirs)


def take(head: OneLayer, name: str, theirs: Any) -> None:
    """Take a matrix or norm, where it fits."""
    mine = getattr(head, name).weight
    if mine.shape == theirs.weight.shape:
        with torch.no_grad():
            mine.copy_(theirs.weight)
