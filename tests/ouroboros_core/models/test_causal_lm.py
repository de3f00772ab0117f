"""The wrapper and its cache against plain, cache-free passes of the unwrapped model."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput, UnsupportedModel
from ouroboros_core.loading.check import check_tree_support
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.bookkeeping import (
    PACKED_CONTEXT,
    PREFILL_CHUNK,
    TREE_ROOM,
    TokenRows,
)
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.forward import TorchEvaluation
from ouroboros_core.models.skips import ReducedModel
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.tree import TokenTree, TreeBuilder
from tests import tiny


@torch.inference_mode()
def plain_logits(model: CausalLM, text: Sequence[int]) -> np.ndarray:
    logits = model.model(input_ids=torch.tensor([list(text)]), use_cache=False).logits
    found: np.ndarray = logits[0, -1].numpy()
    return found


def assert_nodes(model: CausalLM, text: Sequence[int], evaluation: TorchEvaluation) -> None:
    """Every node says what a plain pass says of its branch; the silent ones say nothing."""
    tree = evaluation.tree
    for node in range(len(tree)):
        if node in tree.silent:
            assert evaluation.argmax()[node] == -1
            continue
        expected = plain_logits(model, [*text, *tree.tokens_to(node)])
        found = evaluation.logits(node)
        # Eager attention takes its softmax in float32.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert evaluation.argmax()[node] == expected.argmax()


def assert_equals_plain(model: CausalLM, text: Sequence[int], tree: TokenTree) -> None:
    assert_nodes(model, text, model.evaluate(text, tree))


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "mistral", "gpt2"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_tree_that_grows_level_by_level_is_scored_as_if_it_had_been_there_at_once(
    architecture: str, attention: str
) -> None:
    """Against plain passes over each node's own path; no row is computed twice, and what follows
    finds its cache in order."""
    rng, text = random.Random(7), tiny.prompt(20)
    model = CausalLM(tiny.target(architecture, attention), architecture)
    counts: list[int] = []
    forward = model._forward

    def counted(rows: TokenRows, reduced: ReducedModel | None = None) -> torch.Tensor:
        counts.append(len(rows.tokens))
        return forward(rows, reduced)

    model._forward = counted
    for window in (0, 3):
        tree = tiny.random_tree(rng, text[-1], 14, window)
        model.forget()
        evaluation = model.evaluate(text, tree.first(1))
        counts.clear()
        for size in (2, 6, 7, len(tree)):
            evaluation = model.extend(evaluation, tree.first(size))
        assert sum(counts) == len(tree) - 1 and len(counts) == 4
        assert_nodes(model, text, evaluation)
        last = max(range(tree.proposals.stop), key=lambda node: tree.depths[node])
        longer = [*text, *tree.tokens_to(last)]
        assert_equals_plain(model, longer, tiny.random_tree(rng, longer[-1], 5))


def test_an_evaluation_that_the_cache_has_forgotten_is_made_anew() -> None:
    model, text = CausalLM(tiny.target("llama"), "llama"), tiny.prompt(20)
    tree, other = (tiny.random_tree(random.Random(seed), text[-1], 6) for seed in (3, 4))
    evaluation = model.evaluate(text, tree.first(3))
    model.evaluate(text[:9], TreeBuilder(text[8]).build())
    extended = model.extend(evaluation, tree)
    assert_nodes(model, text, extended)
    with pytest.raises(AssertionError, match="begins with the nodes"):
        model.extend(extended, other)


def test_a_head_scores_a_tree_at_once_as_level_by_level_and_after_other_texts() -> None:
    target = CausalLM(tiny.target("llama", "sdpa"), "llama")
    head, text = tiny.drafter(target), tiny.prompt(20)
    tree = tiny.random_tree(random.Random(2), text[-1], 7)
    at_once = head.evaluate(text, tree)
    by_level = head.evaluate(text, tree.first(1))
    for size in (3, 6, 7):
        by_level = head.extend(by_level, tree.first(size))
    head.evaluate(text[:12], TreeBuilder(text[11]).build())
    again = head.extend(head.evaluate(text, tree.first(3)), tree)
    for node, found in itertools.product(range(len(tree)), (by_level, again)):
        np.testing.assert_allclose(found.logits(node), at_once.logits(node), atol=1e-5)


CASES = [(name, "eager") for name in tiny.CONFIGS]
CASES += [(name, "sdpa") for name in tiny.CONFIGS if name not in tiny.EAGER_ONLY]


@pytest.mark.parametrize(("architecture", "attention"), CASES)
def test_every_node_of_a_tree_has_the_outputs_of_its_branch_alone(
    architecture: str, attention: str
) -> None:
    model = tiny.pair(architecture, attention)[0]
    rng, text = random.Random(1), tiny.prompt(15)
    assert_equals_plain(model, text, tiny.random_tree(rng, text[-1], 9, window=6))
    assert_equals_plain(model, text, tiny.random_tree(rng, text[-1], 5))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_evaluation_is_pure_whatever_was_evaluated_before(rng: random.Random) -> None:
    """A context that grows along the old tree, one that is cut, one that is unrelated, the same one
    again."""
    model = tiny.pair("llama")[0]
    text = tiny.prompt(10, seed=rng.randrange(100))
    for _ in range(5):
        tree = tiny.random_tree(rng, text[-1], rng.randrange(1, 8), rng.randrange(4))
        assert_equals_plain(model, text, tree)
        assert model.held == (tuple(text), tree)
        assert model.cache.get_seq_length() == len(text) + len(tree) - 1
        step = rng.randrange(5)
        if step == 0:
            text = text[: rng.randrange(1, len(text) + 1)]
        elif step == 1:
            text = tiny.prompt(rng.randrange(1, 30), seed=rng.randrange(100))
        elif step > 2:
            path = tree.tokens_to(rng.randrange(len(tree)))
            text = [*text, *path, rng.randrange(tiny.VOCABULARY)]


def test_the_cache_never_moves_while_decoding() -> None:
    """200 steps and more, from a prompt and a budget that end just below the cache's capacity: not
    even the last trees move it."""
    target, draft = CausalLM(long_llama(), "long"), CausalLM(long_llama(), "long draft")
    kind = methods.get("ouroboros")
    sampler = Sampler(Sampling(temperature=2.0, seed=1), tiny.VOCABULARY)
    chosen = kind.Hyperparameters.parse(kind.Hyperparameters.fixed(gamma=2, top_k_suffixes=1))
    instance = kind(chosen, Resources(sampler, draft))
    places: list[tuple[int, ...]] = []
    for step in decode(target, instance, tiny.prompt(11), max_new_tokens=1010, sampler=sampler):
        layers = [*target.cache.layers, *draft.cache.layers]
        held = [tensor for layer in layers for tensor in (layer.keys, layer.values)]
        places.append(tuple(tensor.data_ptr() for tensor in held))
        assert step.width <= TREE_ROOM
    assert len(places) >= 200 and len(set(places)) == 1


def test_a_run_inherits_no_keys_or_values_from_the_one_before() -> None:
    """So that its prefill is measured: the method's and then plain decoding's, on the same
    prompt."""
    model = tiny.pair("llama")[0]
    rows: list[int] = []
    model.model.register_forward_pre_hook(
        lambda _, __, given: rows.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    for _ in range(2):
        rows.clear()
        tiny.run((model, model), "autoregressive", tiny.prompt(30), 3)
        assert rows == [29, 1, 1, 1]


@cache
def long_llama() -> PreTrainedModel:
    """A tiny model with room for 2,048 tokens."""
    config = tiny.target("llama").config.to_dict() | {"max_position_embeddings": 2048}
    torch.manual_seed(0)
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig.from_dict(config))
    model: PreTrainedModel = made.double().eval()
    return model


def test_the_cache_grows_only_beyond_its_room_and_keeps_what_it_holds() -> None:
    model, text = CausalLM(long_llama(), "long"), tiny.prompt(200)
    assert_equals_plain(model, text, TreeBuilder(text[-1]).build())
    capacity = model.cache.capacity
    longer = [*text, *tiny.prompt(capacity - 190, seed=8)]
    assert_equals_plain(model, longer, tiny.random_tree(random.Random(0), longer[-1], 6))
    assert model.cache.capacity > capacity


MISSING = [1, *(size + more for size in (PACKED_CONTEXT, PREFILL_CHUNK) for more in (0, 1))]


@pytest.mark.parametrize("missing", [*MISSING, 2 * PREFILL_CHUNK + 3])
def test_prefill_in_chunks_changes_nothing(missing: int) -> None:
    text = tiny.prompt(missing + 1)
    for prefilled in (False, True):
        model = CausalLM(long_llama(), "long")
        if prefilled:
            model.prefill(text)
            assert model.passes == 0
        assert_equals_plain(model, text, tiny.random_tree(random.Random(0), text[-1], 4))


@pytest.mark.parametrize("length", [2, 40, PREFILL_CHUNK + 40])
def test_prefill_tells_what_follows_the_last_of_every_token(length: int) -> None:
    """The oracle: one pass of transformers' over the whole text, all of whose rows meet the output
    matrix."""
    text, model = tiny.prompt(length), CausalLM(long_llama(), "long")
    found = model.prefill(text, 3)
    rows = model.model(input_ids=torch.tensor([text])).logits[0].topk(3).indices.tolist()
    assert found == {token: rows[place] for place, token in enumerate(text[:-1])}
    assert_equals_plain(model, text, tiny.random_tree(random.Random(0), text[-1], 4))


def test_an_aborted_pass_cannot_corrupt_the_next() -> None:
    model, text = tiny.pair("llama")[0], tiny.prompt(12)
    assert_equals_plain(model, text, tiny.random_tree(random.Random(0), text[-1], 6))

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    hook = model.model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        model.evaluate([*text, 3], TreeBuilder(3).build())
    hook.remove()
    assert_equals_plain(model, [*text, 4], tiny.random_tree(random.Random(1), 4, 6))


def test_the_root_must_end_the_context() -> None:
    model = tiny.pair("llama")[0]
    with pytest.raises(InvalidInput, match="root of the tree must be the last token"):
        model.evaluate([1, 2], TreeBuilder(3).build())
    with pytest.raises(InvalidInput, match="must not be empty"):
        model.evaluate([], TreeBuilder(3).build())


def test_a_smaller_vocabulary_cuts_the_padding_off() -> None:
    model = CausalLM(tiny.target("llama"), "padded", vocabulary=20)
    assert len(model.evaluate([1, 2], TreeBuilder(2).build()).logits(0)) == 20


LOCAL = {"attention_types": [[["global", "local"], 1]], "num_heads": 4, "num_layers": 2}
MAMBA2 = {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "bloom": ({"n_head": 4, "n_layer": 2}, "ALiBi"),
    "mpt": ({"d_model": 32, "n_heads": 4, "n_layers": 2}, "ALiBi"),
    "falcon": ({"alibi": True, "num_kv_heads": 4}, "ALiBi"),
    "gpt_neo": ({**LOCAL, "window_size": 4}, "local"),
    "mamba": ({"state_size": 4}, "linear_attention"),
    "mamba2": (MAMBA2, "linear_attention"),
    "lfm2": ({"layer_types": ["conv", "full_attention"]}, "conv"),
    "rwkv": ({"attention_hidden_size": 32}, "state"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", REFUSED)
def test_what_cannot_be_verified_over_a_tree_is_refused_with_reason_and_remedy(
    architecture: str,
) -> None:
    changes, reason = REFUSED[architecture]
    config = transformers.AutoConfig.for_model(architecture, **{**tiny._SIZES, **changes})
    model = CausalLM(
        transformers.AutoModelForCausalLM.from_config(config), f"a {architecture} model"
    )
    with pytest.raises(UnsupportedModel) as caught:
        check_tree_support(model)
    said = str(caught.value)
    assert f"a {architecture} model cannot be decoded speculatively" in said and reason in said
    assert "Choose a decoder-only model" in said


def test_the_self_check_sees_a_mask_that_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself, without its list of known obstacles: a model that drops the mask is caught
    by its numbers."""
    model = tiny.pair("llama", "sdpa")[0]
    check_tree_support(model)
    honest = model.forward_pass.masks.of

    def blind(*args: Any) -> Any:
        return torch.zeros_like(honest(*args))

    monkeypatch.setattr(model.forward_pass.masks, "of", blind)
    with pytest.raises(UnsupportedModel, match="its attention ignores the mask"):
        check_tree_support(model)


def test_the_self_check_refuses_a_model_that_computes_nan() -> None:
    model = CausalLM(copy.deepcopy(tiny.target("llama", "sdpa")), "broken")
    with torch.no_grad():
        model.model.get_output_embeddings().weight[3] = torch.nan
    with pytest.raises(UnsupportedModel, match="differs from plain passes by nan"):
        check_tree_support(model)
