"""Rows that read a mixture of tokens: what they say, and that they are never taken for context."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import MIXED, Superposing
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder, chain
from tests import tiny

TEXT = tuple(tiny.prompt())
MIXTURES: Any = ({3: 0.5, 7: 0.3, 11: 0.2}, {5: 0.9, 3: 0.1}, {8: 1.0})
CASES = [*((name, False) for name in tiny.CONFIGS), ("llama", True), ("qwen3", True)]


def wrapped(architecture: str, fused: bool = False) -> CausalLM:
    return CausalLM(
        tiny.target(architecture), architecture, engine="compact" if fused else "transformers"
    )


def superposed(model: CausalLM, text: tuple[int, ...], mixtures: Any, disturb: bool = False) -> Any:
    evaluation: Any = model.evaluate(text, TreeBuilder(text[-1]).build())
    for mixture in mixtures:
        if disturb:
            model.evaluate(text[:5], chain(text[4], [1, 2], Provenance(Source.DRAFT)))
        evaluation = model.superpose(evaluation, mixture)
    return evaluation


@torch.inference_mode()
@pytest.mark.parametrize(("architecture", "fused"), CASES)
def test_a_mixed_row_says_what_the_model_says_of_the_mean_embedding(
    architecture: str, fused: bool
) -> None:
    """The oracle is the model itself, given the embeddings of the whole text, without a cache; the
    compact pass turns by tables in float32."""
    model = wrapped(architecture, fused)
    assert isinstance(model, Superposing)
    evaluation = superposed(model, TEXT, MIXTURES)
    assert evaluation.tree.tokens == (TEXT[-1], MIXED, MIXED, MIXED)
    table = model.model.get_input_embeddings()
    rows = [table(torch.tensor(TEXT))]
    for mixture in MIXTURES:
        own = [weight * table(torch.tensor([token])) for token, weight in mixture.items()]
        rows.append(torch.stack(own).sum(0))
    output = model.model(inputs_embeds=torch.cat(rows)[None], use_cache=False).logits[0]
    for node in range(4):
        wanted = output[len(TEXT) - 1 + node].numpy()
        assert evaluation.logits(node) == pytest.approx(wanted, abs=1e-4 if fused else 1e-9)


def test_a_mixture_of_one_token_is_that_token() -> None:
    model, alone = wrapped("llama"), wrapped("llama")
    evaluation = superposed(model, TEXT, [{8: 1.0}, {9: 1.0}])
    tree = chain(TEXT[-1], [8, 9], Provenance(Source.DRAFT))
    wanted = alone.evaluate(TEXT, tree)
    for node in range(3):
        assert evaluation.logits(node) == pytest.approx(wanted.logits(node), abs=1e-9)


@pytest.mark.parametrize("fused", [False, True])
def test_mixed_rows_are_never_context_and_calls_between_them_change_nothing(fused: bool) -> None:
    model = wrapped("llama", fused)
    one = superposed(model, TEXT, MIXTURES)
    passes = model.passes
    assert passes == 1 + len(MIXTURES)
    longer = (*TEXT, 3, 5)
    root = TreeBuilder(5).build()
    wanted = wrapped("llama", fused).evaluate(longer, root).logits(0)
    assert model.evaluate(longer, root).logits(0) == pytest.approx(wanted, abs=1e-9)
    again = superposed(model, TEXT, MIXTURES, disturb=True)
    for node in range(4):
        assert again.logits(node) == pytest.approx(one.logits(node), abs=1e-9)


def test_a_model_whose_embeddings_cannot_be_mixed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wrapped("llama")
    config: Any = model.model.config
    monkeypatch.setattr(config, "hidden_size_per_layer_input", 4, raising=False)
    with pytest.raises(InvalidInput, match=r"llama has further embeddings .* name another draft"):
        superposed(model, TEXT, MIXTURES)
