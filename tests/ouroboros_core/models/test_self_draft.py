"""The target with layers skipped, against passes in which the same sublayers say nothing."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.self_draft import SelfDraft
from ouroboros_core.models.skips import Skips, generic, share_read, sublayers, without
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder
from tests import tiny
from tests.folders import small_pair

GUESS = Provenance(Source.DRAFT)
SKIPS = (
    Skips(attention=frozenset({0})),
    Skips(mlp=frozenset({1})),
    Skips(frozenset({1}), frozenset({0, 1})),
    Skips(frozenset({0, 1}), frozenset()),
)


def tree_of(root: int, *chains: Sequence[int]) -> TokenTree:
    builder = TreeBuilder(root)
    for chain in chains:
        builder.add_path(chain, 0, GUESS)
    return builder.build()


@torch.inference_mode()
def oracle(model: Any, context: Sequence[int], chain: Sequence[int], skips: Skips) -> Any:
    """Logits after the last token of a chain: the whole model reads the context, without its last
    token; that token and the chain follow, and what skipped sublayers say of them is zero."""
    cache = DynamicCache()
    if len(context) > 1:
        model(input_ids=torch.tensor([list(context[:-1])]), past_key_values=cache, use_cache=True)
    layers = sublayers(model)
    silent = [layers[n].attention for n in skips.attention]
    silent += [layers[n].mlp[-1] for n in skips.mlp]

    def zero(_: Any, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output)

    hooks = [model.get_submodule(name).register_forward_hook(zero) for name in silent]
    try:
        for token in (context[-1], *chain):
            logits = model(
                input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True
            ).logits
    finally:
        for hook in hooks:
            hook.remove()
    return logits[0, -1].numpy()


@pytest.mark.parametrize(
    ("architecture", "skips"),
    [(name, SKIPS[2]) for name in tiny.CONFIGS]
    + [
        (name, skips)
        for name in ("llama", "gpt2", "gpt_neox")
        for skips in SKIPS
        if skips != SKIPS[2]
    ],
    ids=str,
)
def test_the_draft_reads_the_targets_rows_and_leaves_them_as_they_were(
    architecture: str, skips: Skips
) -> None:
    """Drafting level by level gives what the oracle gives; the target then gives what it gives in
    plain passes, though the layers have grown by different numbers of rows."""
    model = tiny.target(architecture)
    target = CausalLM(model, architecture)
    draft = SelfDraft(target, skips)
    context = tiny.prompt(12)
    target.prefill(context)
    evaluation = draft.evaluate(context, tree_of(context[-1]))
    tree = tree_of(context[-1], [3, 4], [3, 5], [6])
    evaluation = draft.extend(evaluation, tree.first(2))
    evaluation = draft.extend(evaluation, tree)
    lengths = [layer.length for layer in target.cache.layers]
    assert lengths == [11 if n in skips.attention else 16 for n in range(2)]
    for node in range(len(tree)):
        chain = tree.tokens_to(node)
        wanted = oracle(model, context, chain, skips)
        assert np.allclose(evaluation.logits(node), wanted, atol=1e-5), node
    assert target.passes == 0 and draft.passes == 3
    judged = target.evaluate(context, tree)
    for node in range(len(tree)):
        chain = tree.tokens_to(node)
        assert np.allclose(judged.logits(node), target.plain([*context, *chain]), atol=1e-5)
    longer = [*context, 3, 5, 9]
    after = draft.evaluate(longer, tree_of(9))
    assert np.allclose(after.logits(0), oracle(model, longer, (), skips), atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_the_compact_pass_skips_the_same(architecture: str) -> None:
    """The oracle is the other pass."""
    model = tiny.target(architecture)
    context, tree = tiny.prompt(12), tree_of(tiny.prompt(12)[-1], [3, 4], [5])
    for skips in SKIPS:
        drafts = [
            SelfDraft(CausalLM(model, architecture, engine=engine), skips)
            for engine in ("compact", "transformers")
        ]
        compact, general = (draft.evaluate(context, tree) for draft in drafts)
        for node in range(len(tree)):
            assert np.allclose(compact.logits(node), general.logits(node), atol=1e-5)


def test_nothing_is_left_of_a_draft_where_the_target_was_asked_in_between() -> None:
    model = tiny.target("llama")
    target = CausalLM(model, "llama")
    draft = SelfDraft(target, SKIPS[2])
    context, tree = tiny.prompt(12), tree_of(tiny.prompt(12)[-1], [3, 4])
    for ask in (
        lambda: target.evaluate(context, tree_of(context[-1])),
        lambda: target.prefill(context),
        target.forget,
        target.reset,
        lambda: draft.evaluate(tiny.prompt(9, seed=8), tree_of(tiny.prompt(9, seed=8)[-1])),
    ):
        evaluation = draft.evaluate(context, tree.first(1))
        ask()
        extended = draft.extend(evaluation, tree)
        assert np.allclose(extended.logits(2), oracle(model, context, [3, 4], SKIPS[2]), atol=1e-5)


def test_a_draft_behind_a_single_token_has_no_row_to_read() -> None:
    model = tiny.target("llama")
    draft = SelfDraft(CausalLM(model, "llama"), SKIPS[0])
    evaluation = draft.evaluate([7], tree_of(7, [3]))
    assert np.allclose(evaluation.logits(1), oracle(model, [7], [3], SKIPS[0]), atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "opt"])
def test_a_view_shares_every_weight_and_leaves_the_model_whole(architecture: str) -> None:
    model = tiny.target(architecture)
    weights = {id(p) for p in model.parameters()}
    names = [name for name, _ in model.named_modules()]
    view = without(model, SKIPS[2])
    mine = {id(p) for p in view.parameters()}
    assert mine < weights and len(mine) < len(weights)
    assert [name for name, _ in model.named_modules()] == names
    assert {id(p) for p in model.parameters()} == weights


def test_the_share_of_the_weights_that_is_read_is_counted() -> None:
    """The oracle adds up the shapes."""
    model = tiny.target("llama")
    attention, mlp = 32 * (32 + 16 + 16 + 32), 3 * 32 * 48
    whole = 2 * (attention + mlp) + 32 * tiny.VOCABULARY
    assert share_read(model, Skips()) == 1
    assert share_read(model, SKIPS[2]) == pytest.approx(1 - (attention + 2 * mlp) / whole)


def test_the_generic_layers_lie_in_the_middle_half() -> None:
    assert generic(30) == Skips(frozenset(range(7, 23, 2)), frozenset(range(8, 23, 4)))
    for layers in range(1, 80):
        chosen = generic(layers).attention | generic(layers).mlp
        assert all(layers // 4 <= n < layers - layers // 4 for n in chosen)


def test_layers_that_cannot_be_told_apart_are_refused_with_those_that_can() -> None:
    model = copy.copy(tiny.target("llama"))
    model.__dict__["_modules"] = {}
    with pytest.raises(UnsupportedModel, match=r"layers of a llama cannot be skipped .* as in Lla"):
        sublayers(model)


def test_a_pair_drafts_with_the_generic_layers() -> None:
    pair = small_pair()
    assert pair.self_draft is not None and pair.self_draft.skips == generic(2)
