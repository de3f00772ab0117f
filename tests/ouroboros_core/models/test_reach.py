"""What a model's attention reaches: the windows that it has and the positions, whatever its
configuration says. The oracles are its own pass without a cache, and transformers' `generate`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from ouroboros_core.errors import InvalidInput, UnsupportedModel
from ouroboros_core.loading import check
from ouroboros_core.loading.check import check_tree_support, checked, in_float32
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.reach import Windows, windows_of
from ouroboros_core.tree import TreeBuilder
from tests import families, tiny

MIXED = {"layer_types": ["sliding_attention", "full_attention"]}


def family(name: str, **more: Any) -> PreTrainedModel:
    return families.made(families.config_of(name, more))


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("mistral", {"sliding_window": 33}, Windows(33)),
        ("starcoder2", {"sliding_window": 17}, Windows(17)),
        ("gemma2", {"sliding_window": 21, **MIXED}, Windows(21, mixed=True)),
        ("qwen3", {"sliding_window": 21, "use_sliding_window": True, **MIXED}, Windows(21, True)),
        ("qwen3", {"sliding_window": 21, "use_sliding_window": False}, Windows()),
        ("llama", {"sliding_window": 33}, Windows()),
        ("llama", {"sliding_window": 33, **MIXED}, Windows()),
        ("cohere", {"sliding_window": 5}, Windows()),
        ("gpt_neox", {"window_size": 12}, Windows()),
        ("mistral", {"sliding_window": 256}, Windows()),
        ("mistral", {"sliding_window": 250}, Windows(250)),
    ],
    ids=str,
)
def test_a_window_is_what_the_models_own_pass_shows(
    name: str, more: dict[str, Any], expected: Windows
) -> None:
    model = family(name, **more)
    assert windows_of(model, families.POSITIONS) == expected
    text = torch.randint(1, 61, (60,), generator=torch.Generator().manual_seed(1)).tolist()
    wrapper = CausalLM(model, name)
    tree = TreeBuilder(text[-1]).build()
    np.testing.assert_allclose(wrapper.evaluate(text, tree).logits(0), wrapper.plain(text), 1e-6)


def test_a_long_window_is_asked_for_without_a_long_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window has 4,096 tokens; no pass has more than three new rows."""
    model = family("mistral", sliding_window=4096, max_position_embeddings=32768)
    rows: list[int] = []
    model.register_forward_pre_hook(
        lambda _, __, given: rows.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    assert windows_of(model, 32768) == Windows(4096)
    assert rows and max(rows) == 3


def test_a_family_of_the_compact_pass_keeps_it_where_a_window_is_never_read() -> None:
    model = tiny.target("llama", "sdpa", torch.float32)
    named = copy.deepcopy(model)
    named.config.sliding_window = 40
    assert checked(named, "named").engine == checked(model, "plain").engine != "transformers"


def test_a_window_that_no_mask_gives_is_refused_with_its_size() -> None:
    """A model that masks otherwise than its configuration says: every second token."""
    model = family("gpt_neox", sliding_window=12)
    layer = model.gpt_neox.layers[0].attention.forward

    def skipping(hidden: Any, attention_mask: Any = None, **given: Any) -> Any:
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            attention_mask = attention_mask.clone()
            attention_mask[..., ::2] = False
        return layer(hidden, attention_mask=attention_mask, **given)

    model.gpt_neox.layers[0].attention.forward = skipping
    with pytest.raises(UnsupportedModel, match="no attention window of 12 tokens gives the pass"):
        check_tree_support(CausalLM(model, "odd"))


ORIGINAL = {"original_max_position_embeddings": 64}
EARLIER = {"original_max_position_embeddings": 32}  # the configuration names the product
BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("name", "rope", "positions"),
    [
        ("llama", {"rope_type": "yarn", "factor": 3.0, **ORIGINAL}, 192),
        ("qwen2", {"rope_type": "yarn", "factor": 2.0, **ORIGINAL}, 128),
        ("mistral", {"rope_type": "linear", "factor": 3.0, **ORIGINAL}, 192),
        ("mistral", {"rope_type": "linear", "factor": 3.0}, 64),
        ("llama", {"rope_type": "llama3", "factor": 4.0, **ORIGINAL, **BANDS}, 256),
        ("llama", {"rope_type": "llama3", "factor": 4.0, **EARLIER, **BANDS}, 64),
        ("llama", {"rope_type": "dynamic", "factor": 4.0}, 64),
        ("llama", {"rope_type": "default"}, 64),
    ],
    ids=lambda value: value["rope_type"] if isinstance(value, dict) else str(value),
)
def test_a_text_may_be_as_long_as_the_declared_scaling_gives(
    name: str, rope: dict[str, Any], positions: int
) -> None:
    """The text up to the last position is that of `generate`; one token more is refused."""
    rope = {"rope_theta": 10000.0, **rope}
    model = family(name, max_position_embeddings=64, rope_parameters=rope, sliding_window=None)
    wrapper = CausalLM(model, name)
    assert wrapper.max_length == positions
    prompt = tiny.prompt(positions - 12)
    steps = tiny.run((wrapper, wrapper), "prompt_lookup", prompt, 12)
    assert tiny.emitted(steps) == tiny.generated(model, prompt, 12)
    with pytest.raises(InvalidInput, match=f"has room for {positions}"):
        tiny.run((wrapper, wrapper), "autoregressive", prompt, 13)


def test_a_table_of_positions_has_its_rows_whatever_scaling_is_declared() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, **ORIGINAL}
    assert CausalLM(family("gpt2", rope_parameters=rope), "learned").max_length == 256


@pytest.mark.parametrize(("name", "positions"), [("gpt2", 8), ("opt", 12), ("llama", 8)])
def test_the_check_of_a_model_needs_no_more_positions_than_it_has(
    name: str, positions: int
) -> None:
    size = "n_positions" if name == "gpt2" else "max_position_embeddings"
    model = families.made(families.config_of(name, {size: positions}))
    wrapper = checked(model, name)
    assert wrapper.max_length == positions
    prompt = tiny.prompt(3)
    steps = tiny.run((wrapper, wrapper), "prompt_lookup", prompt, positions - 4)
    assert tiny.emitted(steps) == tiny.generated(model, prompt, positions - 4)


@pytest.mark.parametrize("name", ["phimoe", "llama"])
def test_a_check_that_fails_in_half_precision_is_repeated_in_float32(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a row goes through another expert: bfloat16 is off by more than is allowed, float32
    is not, and the weights are as before."""
    model = copy.deepcopy(families.made(families.config_of(name))).to(torch.bfloat16)
    weights = {name: weight.data_ptr() for name, weight in model.named_parameters()}
    monkeypatch.setitem(check.TOLERANCE, torch.bfloat16, -1.0)
    check_tree_support(CausalLM(model, "half"))
    assert {name: weight.data_ptr() for name, weight in model.named_parameters()} == weights
    with in_float32(model) as converted:
        assert converted and model.dtype == torch.float32
    assert model.dtype == torch.bfloat16
    monkeypatch.setitem(check.TOLERANCE, torch.float32, 1e-12)
    with pytest.raises(UnsupportedModel, match=r"differs from plain passes by .* 7 of 7 rows"):
        check_tree_support(CausalLM(model, "half"))


@pytest.mark.parametrize("attention", ["flex_attention", "blind"])
def test_an_attention_that_cannot_follow_a_tree_is_named_with_the_remedy(attention: str) -> None:
    """flex_attention on a CPU would end the process; `blind` takes no mask at all."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def blind(module: Any, q: Any, k: Any, v: Any, attention_mask: Any, **given: Any) -> Any:
        return sdpa_attention_forward(module, q, k, v, None, **given)

    AttentionInterface.register("blind", blind)
    model = copy.deepcopy(tiny.target("llama", "sdpa"))
    model.config._attn_implementation = attention
    with pytest.raises(UnsupportedModel) as caught:
        check_tree_support(CausalLM(model, "llama"))
    assert attention in str(caught.value)
    assert str(caught.value).endswith("attn_implementation='sdpa'")
