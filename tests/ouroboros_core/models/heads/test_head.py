"""Heads: their outputs are those of plain torch on the target's states."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import DynamicCache

from ouroboros_core.errors import InvalidInput, VocabularyMismatch, WeightsUnavailable
from ouroboros_core.loading.heads import choose_folders, drafter_class, kind_of, load_heads
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.head import WEIGHTS, read_weights, rounded, write_weights
from ouroboros_core.models.heads.medusa import assumed
from ouroboros_core.models.heads.recipes import HEADS
from ouroboros_core.sources import Source
from ouroboros_core.training import dspark
from ouroboros_core.training.glide import guesses
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain
from tests import tiny

DRAFT = Provenance(Source.DRAFT)


def line(context: list[int], levels: int) -> TokenTree:
    return chain(context[-1], [context[-1]] * (levels - 1), DRAFT)


def close(logits: Any, expected: torch.Tensor) -> bool:
    return torch.allclose(torch.as_tensor(logits), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_medusa_heads_say_what_their_formula_says_of_the_last_hidden_state(
    architecture: str,
) -> None:
    """x + SiLU(W x + b) on the state that transformers gives, times the target's output matrix;
    cold, after another text, and below any token."""
    model = tiny.target(architecture)
    head = copy.deepcopy(tiny.head(architecture, kind="medusa")).to(torch.float64)
    drafter = tiny.drafters(CausalLM(model, architecture), ["medusa"])["medusa"]
    for text in (tiny.prompt(20), tiny.prompt(9, seed=3), [*tiny.prompt(20), 4]):
        with torch.inference_mode():
            hidden = model.base_model(torch.tensor([text[:-1]])).last_hidden_state[0, -1]
            evaluation = drafter.evaluate(text, line(text, 5))
            for index in range(5):
                x = hidden + torch.nn.functional.silu(
                    head.weight[index] @ hidden + head.bias[index]
                )
                expected = model.get_output_embeddings()(x)
                assert close(evaluation.logits(index), expected)
        bush = TreeBuilder(text[-1])
        for token in (7, 8):
            bush.add(token, 0, DRAFT)
        grown = drafter.extend(drafter.evaluate(text, line(text, 1)), bush.build())
        assert close(grown.logits(1), torch.as_tensor(evaluation.logits(1)))
        assert (grown.logits(2) == grown.logits(1)).all()


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_glide_draft_says_when_it_drafts_what_it_learned_to_say(architecture: str) -> None:
    """Training's pass over a whole text, each token at its place in a draft, against the drafter at
    the end of many texts, cold and after other texts; a tree's branches do not see each other."""
    model = tiny.target(architecture)
    head = copy.deepcopy(tiny.head(architecture, kind="glide")).to(torch.float64)
    drafter = tiny.drafters(CausalLM(model, architecture), ["glide"])["glide"]
    text = tiny.prompt(60, seed=2)
    with torch.inference_mode():
        ids, cache = torch.tensor([text]), DynamicCache()
        model(ids, past_key_values=cache)
        rows = [tensor.transpose(1, 2).flatten(2) for tensor in memory_of(cache)]
        embedded = model.get_input_embeddings()(ids)
        for depth in range(3):
            guessed = guesses(head, embedded, torch.cat(rows, -1), np.full(60, depth))
            logits_of = model.get_output_embeddings()(guessed)[0]
            for end in (40, 12, 13, 30, 3):
                bush = TreeBuilder(text[end - 1])
                above: int | None = 0
                for index in range(depth):
                    assert above is not None
                    bush.add((text[end + index] + 1) % tiny.VOCABULARY, above, DRAFT)
                    above = bush.add(text[end + index], above, DRAFT)
                whole_tree = drafter.evaluate(text[:end], bush.build())
                grown = drafter.evaluate(text[:end], TreeBuilder(text[end - 1]).build())
                for evaluation in (whole_tree, drafter.extend(grown, bush.build())):
                    logits = torch.as_tensor(evaluation.logits(above))
                    expected = logits_of[end - 1 + depth]
                    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["parallel", "dspark"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_block_drafter_says_when_it_drafts_what_it_learned_to_say(
    architecture: str, kind: str
) -> None:
    """Training's pass over several blocks of a text against the drafter at the end of many texts,
    cold and after other texts. A tree's nodes are corrected each by its own token; a block whose
    places all were computed needs no further pass."""
    model = tiny.target(architecture)
    head = copy.deepcopy(tiny.head(architecture, kind=kind)).to(torch.float64)
    drafter = tiny.drafters(CausalLM(model, architecture), [kind])[kind]
    if kind == "dspark":
        assert head.correction.weight.abs().max() > 0.01, "the correction has learned something"
    text, ends = tiny.prompt(60, seed=2), [40, 12, 13, 30, 3, 54]
    with torch.inference_mode():
        ids, embed = torch.tensor([text]), model.get_input_embeddings()
        output = model.base_model(ids, output_hidden_states=True)
        between = [output.hidden_states[depth] for depth in head.config.depths]
        features = torch.cat([output.last_hidden_state, *between], -1)
        anchors = torch.tensor([[end - 2 for end in ends]])
        states_of = dspark.guesses(head, embed(ids), features, anchors)[0]
        for states, end in zip(states_of, ends, strict=True):
            bush, above = TreeBuilder(text[end - 1]), 0
            for depth in range(head.config.block - 1):
                bush.add((text[end + depth] + 1) % tiny.VOCABULARY, above, DRAFT)
                added = bush.add(text[end + depth], above, DRAFT)
                assert added is not None
                above = added
            tree, passes = bush.build(), drafter.passes
            whole_tree = drafter.evaluate(text[:end], tree)
            grown = drafter.evaluate(text[:end], tree.first(1))
            for size in (3, 6, len(tree)):
                grown = drafter.extend(grown, tree.first(size))
            assert kind == "parallel" or drafter.passes == passes + 2
            for node, depth in enumerate(tree.depths):
                if depth == head.config.block:
                    continue
                before = embed(torch.tensor(tree.tokens[node]))
                correction, joined = dspark.corrections(head, states[depth], before)
                expected = model.get_output_embeddings()(states[depth])
                expected = expected if correction is None else expected + correction
                for evaluation in (whole_tree, grown):
                    logits = torch.as_tensor(evaluation.logits(node))
                    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-4)
                    if head.confidence is not None:
                        sure = float(head.confidence(joined).sigmoid())
                        assert evaluation.acceptance(node) == pytest.approx(sure, abs=1e-4)


def memory_of(cache: DynamicCache) -> tuple[torch.Tensor, torch.Tensor]:
    layer = cache.layers[-1]
    assert layer.keys is not None and layer.values is not None
    return layer.keys, layer.values


def test_the_accuracies_of_heads_that_were_trained_are_measured_and_fall_with_the_rank() -> None:
    """Ranks of one head add up to at most one, and the first is right more often than the last."""
    accuracies = tiny.head("llama", kind="medusa").config.accuracies
    assert len(accuracies) == 5 and all(len(ranks) == 10 for ranks in accuracies)
    assert all(0 < sum(ranks) <= 1.001 and ranks[0] > ranks[-1] for ranks in accuracies)
    assert accuracies[0][0] > 0.2
    assert all(list(ranks) == sorted(ranks, reverse=True) for ranks in assumed(4))


@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_says_its_kind_and_gives_the_same_weights_again(kind: str, tmp_path: Path) -> None:
    """But for bfloat16, in which they are stored; another target is refused, and another kind."""
    model = tiny.written("llama", kind)[1]
    head = tiny.head("llama", kind=kind)
    head.save(tmp_path / "made")
    assert kind_of(tmp_path / "made") == kind
    drafter = load_heads({kind: str(tmp_path / "made")}, CausalLM(model, "llama"))[kind]
    assert drafter.name == "made"
    again = drafter_class(kind).weights.load(tmp_path / "made", model)
    assert again.config == head.config
    for name, value in head.stored.items():
        stored = value.bfloat16() if value.is_floating_point() else value
        assert torch.equal(again.state_dict()[name].to(stored.dtype), stored), name
    other = CausalLM(tiny.target("llama", seed=1), "other")
    with pytest.raises(VocabularyMismatch, match=f"was trained for llama .* train {kind}"):
        load_heads({kind: str(tmp_path / "made")}, other)
    with pytest.raises(WeightsUnavailable, match=r"does not hold|holds no EAGLE head"):
        load_heads({kind: str(tmp_path)}, other)
    with pytest.raises(InvalidInput, match="holds no head of this shape to go on from"):
        copy.deepcopy(head).start_from(tmp_path)


def test_training_that_goes_on_for_other_tokens_keeps_what_was_learned_of_each_token(
    tmp_path: Path,
) -> None:
    """The correction has a row for each output token; other texts have other frequent tokens."""
    head = tiny.head("llama", kind="dspark")
    head.save(tmp_path)
    common, new = head.outputs.tolist()[::2], 40
    other_head = type(head)(head.config, [*common, new])
    other_head.start_from(tmp_path)
    for token, row in zip(other_head.outputs.tolist(), other_head.correction.weight, strict=True):
        learned = head.correction.weight[head.outputs == token][:1].bfloat16().float()
        assert torch.equal(row[None], learned if token in common else torch.zeros(1, len(row)))


def test_a_head_that_reads_other_states_is_no_beginning(tmp_path: Path) -> None:
    head = tiny.head("llama", kind="dspark")
    head.save(tmp_path)
    other_head = type(head)(replace(head.config, depths=(2,)), head.outputs.tolist())
    with pytest.raises(InvalidInput, match=r"reads states at depths \[1\], not \[2\]"):
        other_head.start_from(tmp_path)


@pytest.mark.parametrize("depth", [0, 2])
def test_depths_that_the_target_does_not_have_are_refused(depth: int, tmp_path: Path) -> None:
    """The target has two layers; the last one's state is read anyway."""
    model = tiny.written("llama", "dspark")[1]
    tiny.head("llama", kind="dspark").save(tmp_path)
    about = json.loads((tmp_path / "head.json").read_text(encoding="utf-8"))
    (tmp_path / "head.json").write_text(json.dumps(about | {"depths": [depth]}), encoding="utf-8")
    with pytest.raises(WeightsUnavailable, match=f"depths must be between 1 and 1, got {depth}"):
        load_heads({"dspark": str(tmp_path)}, CausalLM(model, "llama"))


def test_of_each_kind_one_folder_is_taken_and_a_named_one_replaces_what_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {"kind": "eagle", "depths": [1]}  # before EAGLE-3 had a kind of its own
    described = {"a": {"kind": "medusa"}, "b": {"kind": "medusa"}, "c": {"kind": "eagle"}}
    for name, about in {**described, "d": older}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "head.json").write_text(json.dumps(about), encoding="utf-8")
    a, b, c, d = (str(tmp_path / name) for name in "abcd")
    assert choose_folders([a, c, d], shipped=False) == {"medusa": a, "eagle": c, "eagle3": d}
    assert choose_folders(None, shipped=False) == choose_folders("none", shipped=True) == {}
    with pytest.raises(InvalidInput, match="both of the kind medusa: name one of them"):
        choose_folders([a, b], shipped=False)
    there = tmp_path / "shipped-eagle"
    there.mkdir()
    monkeypatch.setattr(
        "ouroboros_core.loading.embedded.head_folder", lambda kind: tmp_path / f"shipped-{kind}"
    )
    assert choose_folders(a, shipped=True) == {"medusa": a, "eagle": str(there)}
    assert choose_folders([c], shipped=True) == {"eagle": c}
    assert choose_folders([a, "none"], shipped=True) == {"medusa": a}


def test_in_eight_bits_a_matrix_is_the_same_within_half_a_step_of_its_row(tmp_path: Path) -> None:
    """The oracle is the matrix itself; a row of zeros and other tensors stay as they are."""
    torch.manual_seed(0)
    matrix = torch.randn(40, 256) * torch.rand(40, 1) * 5
    matrix[7] = 0
    kept_as_is = {
        "norm": torch.randn(256).bfloat16(),
        "ids": torch.arange(9),
        "bias": torch.randn(5, 256).bfloat16(),
    }
    state = {"matrix": matrix, "stack": matrix.view(4, 10, 256), **kept_as_is}
    write_weights(state, tmp_path / WEIGHTS, bits=8)
    stored = read_weights(tmp_path / WEIGHTS)
    assert stored.keys() == state.keys()
    assert all(torch.equal(stored[name], value) for name, value in kept_as_is.items())
    assert torch.equal(stored["stack"].view(40, 256), stored["matrix"])
    step = matrix.abs().amax(1, keepdim=True) / 127
    error = (stored["matrix"].float() - matrix).abs()
    assert bool((error <= 0.5001 * step + 2**-8 * matrix.abs()).all()), "and half a bfloat16 step"
    assert not stored["matrix"][7].any()
    once, again = (rounded(one)["matrix"].int() for one in (state, stored))
    assert (again - once).abs().max() <= 1


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_in_eight_bits_takes_little_more_than_half_the_bytes_and_loads(
    kind: str, tmp_path: Path
) -> None:
    head = copy.deepcopy(tiny.head("llama", kind=kind))
    for bits in (16, 8):
        head.save(tmp_path / str(bits), bits)
    whole, half = (
        sum(value.nbytes for value in load_file(tmp_path / name / WEIGHTS).values())
        for name in ("16", "8")
    )
    assert half < 0.75 * whole
    target = tiny.written("llama", kind)[1]  # the target of the training
    loaded = type(head).load(tmp_path / "8", target)
    for name, value in head.stored.items():
        step = float(value.float().abs().max()) / 127  # half of it by 8 bits, the rest by bfloat16
        assert torch.allclose(loaded.stored[name].float(), value.float(), atol=step)
