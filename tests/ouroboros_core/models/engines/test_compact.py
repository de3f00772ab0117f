"""The compact pass of the Llama family, against transformers' own pass over the whole text."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from ouroboros_core.loading import check
from ouroboros_core.loading.pairs import make_pair
from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import BLOCK, FusedDecoder, blocks_of, fits
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder
from tests import tiny
from tests.folders import tokenizer

FAMILY: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": None, "head_dim": 8},
}
"""With biases on queries, keys and values, with norms on queries and keys, and with heads wider
than the model's width suggests."""
SCALED = {"rope_type": "llama3", "rope_theta": 500.0, "original_max_position_embeddings": 64}
SCALED |= {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def model(kind: str, dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
    settings = {**tiny._SIZES, **FAMILY[kind], "max_position_embeddings": 2048, **changes}
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **settings)
    made = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0, 0.3) if weight.dim() > 1 else weight.normal_(1, 0.2)
    return made


def bush(root: int) -> TokenTree:
    builder = TreeBuilder(root)
    guess = Provenance(Source.DRAFT)
    first = builder.add_path([4, 9, 2], 0, guess)
    builder.add_path([7, 7], first[0], guess)
    builder.add_path([1], 0, guess)
    return builder.build()


@torch.inference_mode()
def plain(made: Any, text: list[int]) -> Any:
    return made(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].double().numpy()


def close(found: Any, expected: Any) -> bool:
    return np.allclose(found, expected, rtol=1e-4, atol=1e-4)


def assert_branches(made: Any, text: list[int], evaluation: Any) -> None:
    """Every node has the logits that its branch alone has in a plain pass."""
    for node in range(len(evaluation.tree)):
        branch = [*text, *evaluation.tree.tokens_to(node)]
        assert close(evaluation.logits(node), plain(made, branch)), node


def test_attention_may_lay_its_values_out_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does on a GPU in single precision, rows before heads. Oracle: the plain pass."""
    attention = torch.nn.functional.scaled_dot_product_attention

    def otherwise(*given: Any, **more: Any) -> torch.Tensor:
        return attention(*given, **more).transpose(1, 2).contiguous().transpose(1, 2)

    made, text = model("llama"), tiny.prompt(20)
    expected = plain(made, [*text, 4, 9, 2])
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", otherwise)
    engines: tuple[Engine, Engine] = ("compact", "static")
    for engine in engines:
        evaluation = CausalLM(made, "llama", engine=engine).evaluate(text, bush(text[-1]))
        assert close(evaluation.logits(3), expected)


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize(
    "changes",
    [{}, {"rope_parameters": SCALED}, {"tie_word_embeddings": True}],
    ids=["", "scaled", "tied"],
)
def test_every_node_has_the_logits_of_its_branch_alone(kind: str, changes: dict[str, Any]) -> None:
    """Behind a context longer than a prefill chunk, and again after an accepted path was compacted
    in the cache."""
    made, text = model(kind, **changes), tiny.prompt(PREFILL_CHUNK + 90)
    assert fits(made)
    wrapper = CausalLM(made, kind, engine="compact")
    assert wrapper.engine == "compact"
    wrapper.prefill(text)
    for context in (text, [*text, 4, 7, 3]):
        assert_branches(made, context, wrapper.evaluate(context, bush(context[-1])))


@pytest.mark.parametrize("kind", FAMILY)
def test_a_long_chunk_in_blocks_of_rows_says_what_it_says_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a prompt behind cached rows, and of a tree of which any node may go on from any other."""
    text, found = tiny.prompt(250), []
    tree = tiny.random_tree(random.Random(3), text[-1], 2 * BLOCK + 5)
    for rows in (BLOCK, 1 << 20):
        monkeypatch.setattr("ouroboros_core.models.engines.compact.BLOCK", rows)
        wrapper = CausalLM(model(kind), kind, engine="compact")
        wrapper.keep_features()
        wrapper.prefill(text[:40])
        states = wrapper.features(text).clone()
        found.append((states, wrapper.evaluate(text, tree).all_logits))
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)


def test_a_blocks_keys_end_with_its_last_row() -> None:
    rows, past = 2 * BLOCK + 9, 30
    mask = torch.arange(rows * (past + rows)).view(rows, -1)
    blocks = blocks_of(rows, mask, 3)
    ends = [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, rows)]
    assert [(start, stop) for start, stop, _ in blocks] == ends
    for start, stop, part in blocks:
        assert part is not None
        assert torch.equal(part[0, 0], mask[start:stop, : past + stop].repeat(3, 1))
    few = mask[: 2 * BLOCK - 1]
    assert [block[:2] for block in blocks_of(len(few), few, 1)] == [(0, len(few))]


def test_a_single_row_needs_no_mask_and_says_the_same() -> None:
    made, text = model("llama"), tiny.prompt(30)
    wrapper = CausalLM(made, "llama", engine="compact")
    for end in (20, 21, 22):
        root = TreeBuilder(text[end - 1]).build()
        assert_branches(made, text[:end], wrapper.evaluate(text[:end], root))


@pytest.mark.parametrize("engine", ["compact", "transformers"])
def test_a_trimmed_output_vocabulary_leaves_the_other_tokens_without_a_chance(
    engine: Engine,
) -> None:
    made, outputs, text = model("llama"), [3, 5, 8, 21], tiny.prompt(30)
    wrapper = CausalLM(made, "llama", outputs=outputs, engine=engine)
    evaluation = wrapper.evaluate(text, TreeBuilder(text[-1]).build())
    expected = np.full(tiny.VOCABULARY, -np.inf)
    expected[outputs] = plain(made, text)[outputs]
    assert close(evaluation.logits(0), expected)
    assert evaluation.argmax() == [int(expected.argmax())]


@pytest.mark.parametrize("kind", FAMILY)
def test_a_draft_of_the_family_is_computed_compactly_in_half_precision_too(kind: str) -> None:
    target, draft = (model(kind, torch.bfloat16) for _ in range(2))
    pair = make_pair(target, draft, tokenizer("bytes"))
    assert pair.draft is not None and pair.draft.engine == "compact"


OTHERS = ("gemma", "gpt2", "olmo2", "granite", "phi3", "stablelm", "starcoder2", "cohere")


@pytest.mark.parametrize("architecture", OTHERS)
def test_other_architectures_keep_the_general_pass(architecture: str) -> None:
    assert not fits(tiny.target(architecture))


def test_what_does_not_compute_alike_keeps_the_general_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broken on purpose: a compact pass whose layers are exchanged, and one that fails, are both
    found out."""
    made = model("llama")
    exchanged = CausalLM(made, "llama", engine="compact")
    assert isinstance(exchanged.forward_pass.decoder, FusedDecoder)
    assert check.computes_alike(exchanged)
    exchanged.forward_pass.decoder.layers.reverse()
    assert not check.computes_alike(exchanged)
    broken: Callable[..., Any] = lambda *_: 1 / 0  # noqa: E731
    monkeypatch.setattr("ouroboros_core.models.engines.compact.FusedDecoder.run", broken)
    pair = make_pair(copy.deepcopy(made), copy.deepcopy(made), tokenizer("bytes"))
    assert pair.draft is not None and pair.draft.engine == "transformers"


@pytest.mark.parametrize("depths", [(), (1,)])
@pytest.mark.parametrize("engine", ["compact", "transformers"])
def test_features_are_the_hidden_states_of_every_token_but_the_last(
    engine: Engine, depths: tuple[int, ...]
) -> None:
    """The last ones and those between the layers, as transformers gives them; kept along with the
    cache, through compaction and a change of text, by both passes."""
    made, text = model("llama"), tiny.prompt(40)
    wrapper = CausalLM(made, "llama", engine=engine)
    wrapper.keep_features(depths)
    for context in (text, [*text, 4, 7, 3], [*text[:20], 5, 6]):
        wrapper.evaluate(context[:-1], bush(context[-2]))
        with torch.inference_mode():
            read = made.model(torch.tensor([context[:-1]]), output_hidden_states=True)
        expected = torch.cat([read.hidden_states[depth][0] for depth in (-1, *depths)], -1)
        found = wrapper.features(context)
        assert found.shape == expected.shape and close(found, expected)
        wrapper.evaluate(context, bush(context[-1]))
