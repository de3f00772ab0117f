"""A tiny random model of every causal language model class of transformers that can be made."""

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY = 61
POSITIONS = 256
MOST = 20_000_000
"""Parameters of a model, at most: a configuration may have sizes that no name here reaches."""

_NAMED: dict[str, Any] = {
    "hidden_size d_model n_embd word_embed_proj_dim": 32,
    "intermediate_size ffn_dim decoder_ffn_dim": 48,
    "num_hidden_layers n_layer num_layers decoder_layers encoder_layers": 2,
    "num_attention_heads n_head num_heads": 4,
    "attention_heads decoder_attention_heads encoder_attention_heads": 4,
    "head_dim rotary_dim global_head_dim qk_rope_head_dim qk_nope_head_dim v_head_dim": 8,
    "q_lora_rank kv_lora_rank moe_intermediate_size shared_expert_intermediate_size": 16,
    "num_experts num_local_experts n_routed_experts": 4,
    "n_group topk_group n_shared_experts first_k_dense_replace": 1,
    "num_experts_per_tok num_key_value_heads": 2,
    "hidden_size_per_layer_input": 8,
    "max_position_embeddings n_positions n_ctx": POSITIONS,
    "vocab_size vocab_size_per_layer_input": VOCABULARY,
    "pad_token_id num_kv_shared_layers": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_SIZES = {name: size for names, size in _NAMED.items() for name in names.split()}
_SHARED = (
    "axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa "
    "kimi_linear longcat_flash minicpm3 youtu"
)
MORE = {name: {"num_key_value_heads": 4} for name in _SHARED.split()}
"""Settings that some families need beside the sizes: latent attention has a key for each query."""

SINGLE = {"xglm"}
"""Families whose code computes in float32 only."""

NAMES = tuple(dict.fromkeys(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def config_of(family: str, more: Mapping[str, Any] = {}) -> PreTrainedConfig:
    """The configuration of a tiny model of one family; `more` beside its sizes."""
    default = transformers.CONFIG_MAPPING[family]().get_text_config(decoder=True)
    kind = type(default)
    fields, renamed = default.to_dict(), getattr(kind, "attribute_map", {})
    sizes = {**_SIZES, **MORE.get(family, {}), **more}
    settings = {
        renamed.get(name, name): value
        for name, value in sizes.items()
        if name in fields or name in renamed or name in more
    }
    if fields.get("layer_types") and "layer_types" not in settings:
        settings["layer_types"] = (list(dict.fromkeys(fields["layer_types"])) * 2)[:2]
    return kind(**settings)


WINDOWS = ["sliding_window", "sliding_window_size", "local_attention", "window_size"]
WINDOWS += ["attention_window_size"]


def window_fields(family: str) -> list[str]:
    """The fields of a family's configuration that may hold a window."""
    fields = transformers.CONFIG_MAPPING[family]().get_text_config(decoder=True).to_dict()
    return [name for name in WINDOWS if name in fields]


def made(config: PreTrainedConfig) -> PreTrainedModel:
    """A random model with peaked outputs that depend on the text, in double precision where its
    code can; raises what its class raises."""
    dtype = torch.float32 if config.model_type in SINGLE else torch.float64
    with torch.device("meta"):
        shapes = transformers.AutoModelForCausalLM.from_config(config)
    if sum(weight.numel() for weight in shapes.parameters()) > MOST:
        raise ValueError("the smallest model of this family is large")
    torch.manual_seed(0)
    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    model.set_experts_implementation("eager")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and weight.is_floating_point():
                weight.normal_(0, 0.25 if "emb" in name or "wte" in name else 0.15)
        last = min(40, getattr(config, "max_position_embeddings", POSITIONS))
        logits = model(input_ids=torch.arange(1, last)[None], use_cache=False).logits
        head = model.get_output_embeddings()
        head.weight.mul_(3.0 / logits.std())
    model.generation_config.eos_token_id = None
    return model
