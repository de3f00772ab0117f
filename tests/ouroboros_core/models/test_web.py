"""The pass of a browser, in Node and in Chromium: every row of a tree equals, to the bit, the same
row alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import PreTrainedModel

from ouroboros_core import methods
from ouroboros_core.adaptive.controller import controlled
from ouroboros_core.adaptive.cost_model import TYPICAL
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import browser, embedded
from ouroboros_core.loading.heads import load_head
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines import passes
from ouroboros_core.models.engines.native import build
from ouroboros_core.models.engines.native.blocks import BYTES, Blocks
from ouroboros_core.models.heads.eagle import EagleConfig
from ouroboros_core.models.heads.eagle3 import Eagle3Head
from ouroboros_core.models.heads.head import HeadDrafter, signature
from ouroboros_core.models.web import WebHead, WebModel
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain
from tests import tiny
from tests.web_pass import PLACES, WebPass

WORDS = 300
OUTPUTS = range(1, WORDS, 3)


def made(layers: int = 2, words: int = WORDS) -> PreTrainedModel:
    """Return a random model in the shape of the embedded target: tied embeddings, and sizes that
    fill no whole panel and no whole strip."""
    config = transformers.LlamaConfig(
        vocab_size=words,
        hidden_size=96,
        intermediate_size=176,
        num_hidden_layers=layers,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    torch.manual_seed(layers)
    model: PreTrainedModel = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(1.0 if weight.dim() == 1 else 0.0, 0.25)
            weight.copy_(weight.bfloat16().float())
    return model


IN_NODE = [*itertools.product(["node"], build.BROWSER_BUILDS)]
PASSES = [*IN_NODE, pytest.param(("chromium", "relaxed"), marks=pytest.mark.served)]
"""Places and builds. Chromium takes the relaxed one."""


@pytest.fixture(scope="module", params=PASSES, ids="-".join)
def web_pass(request: pytest.FixtureRequest) -> Iterator[WebPass]:
    place, name = request.param
    with PLACES[place]() as answer:
        yield WebPass(answer, build.browser_builds()[name])


@pytest.fixture(scope="module")
def pair(
    web_pass: WebPass, tmp_path_factory: pytest.TempPathFactory
) -> tuple[WebModel, WebModel, PreTrainedModel, PreTrainedModel]:
    """Return a target and a draft model that shares its embeddings and writes a third of its
    words, and the models of transformers that they were made from."""
    folder = tmp_path_factory.mktemp("weights")
    target, draft = made(), made(1)
    draft.set_input_embeddings(target.get_input_embeddings())
    draft.set_output_embeddings(target.get_output_embeddings())
    (folder / "target").write_bytes(browser.weights_file(target))
    file = browser.weights_file(draft, outputs=OUTPUTS, embeddings=False)
    (folder / "draft").write_bytes(file)
    computation = web_pass.model(folder / "target", "target")
    small = web_pass.model(folder / "draft", "draft", computation)
    return WebModel(computation), WebModel(small), target, draft


def bits(model: WebModel, text: Sequence[int], tree: TokenTree) -> dict[int, bytes]:
    """Return the logits of the nodes that are not silent."""
    evaluation = model.evaluate(text, tree)
    return {
        node: evaluation.logits(node).tobytes()
        for node in range(len(tree))
        if node not in tree.silent
    }


def alone(model: WebModel, text: Sequence[int]) -> bytes:
    """Return the logits after a text whose rows are computed in passes over one row each."""
    model.forget()
    for end in range(1, len(text) + 1):
        evaluation = model.evaluate(text[:end], TreeBuilder(text[end - 1]).build())
    logits: bytes = evaluation.logits(0).tobytes()
    return logits


def assert_alone(model: WebModel, text: Sequence[int], tree: TokenTree) -> None:
    together = bits(model, text, tree)
    for node, logits in together.items():
        assert logits == alone(model, [*text, *tree.tokens_to(node)]), node


def prompt(length: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(WORDS) for _ in range(length)]


@pytest.mark.parametrize("drafts", [False, True])
def test_each_row_of_a_tree_equals_the_same_row_alone(pair: Any, drafts: bool) -> None:
    """Oracle: passes over one row each. Texts of 15 to 37 tokens end within and between blocks of
    16, and trees of 2 to 30 nodes fill several tiles of rows."""
    model, rng = pair[drafts], random.Random(5)
    for length, size in ((15, 2), (16, 3), (17, 4), (31, 7), (37, 30)):
        text = prompt(length, size)
        tree = tiny.random_tree(rng, text[-1], size - 1, window=size % 3)
        model.forget()
        assert_alone(model, text, tree)


def test_a_row_does_not_depend_on_what_was_evaluated_before(pair: Any) -> None:
    """A context that grows along the old tree, one that is cut, another one, the same again."""
    model, rng = pair[0], random.Random(3)
    text = prompt(20)
    for step in range(6):
        tree = tiny.random_tree(rng, text[-1], 8, window=2)
        together = bits(model, text, tree)
        assert model.held == (tuple(text), tree)
        model.forget()
        assert bits(model, text, tree) == together
        half = model.evaluate(text, tree.first(4))
        grown = model.extend(half, tree)
        for node, logits in together.items():
            assert grown.logits(node).tobytes() == logits
        last = max(range(tree.proposals.stop), key=lambda node: tree.depths[node])
        text = [[*text, *tree.tokens_to(last), 5], text[: len(text) // 2], prompt(9)][step % 3]


def test_the_logits_are_those_of_the_native_pass_but_for_rounding(pair: Any) -> None:
    """Oracle: the same weights and float32 in the native pass of this processor."""
    target, draft, *sources = pair
    for model, source, outputs in zip((target, draft), sources, (None, OUTPUTS), strict=True):
        native = CausalLM(source, "native", outputs=outputs, engine="native")
        text = prompt(40)
        tree = tiny.random_tree(random.Random(1), text[-1], 9)
        expected, evaluation = native.evaluate(text, tree), model.evaluate(text, tree)
        for node in range(len(tree)):
            logits = np.array(evaluation.logits(node))
            np.testing.assert_allclose(logits, expected.logits(node), atol=2e-4)
        pairs = [(node, token) for node in range(3) for token in (0, 1, 4, 299)]
        np.testing.assert_allclose(
            evaluation.confidences(pairs), expected.confidences(pairs), atol=1e-4
        )
        assert evaluation.argmax() == expected.argmax()
        assert evaluation.likeliest(5) == expected.likeliest(5)
        ours, theirs = evaluation.scored([0, 2], 3), expected.scored([0, 2], 3)
        for (token, score), (other, right) in zip(
            itertools.chain(*ours), itertools.chain(*theirs), strict=True
        ):
            assert token == other and score == pytest.approx(right, abs=1e-4)
        first, last = model.prefill(text, 3), native.prefill(text, 3)
        assert first == last


SAMPLINGS = [
    Sampling(temperature=1.0, seed=3),
    Sampling(temperature=0.3, top_k=5),
    Sampling(temperature=1.5, top_p=0.6, seed=2**32 - 1),
    Sampling(temperature=0.8, top_k=40, top_p=0.9, seed=11),
    Sampling(temperature=1e-120, seed=1),
]


class _Plain:
    """An evaluation whose tokens numpy draws."""

    def __init__(self, evaluation: Any) -> None:
        self.logits = evaluation.logits


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_tokens_are_drawn_as_numpy_draws_them(pair: Any, sampling: Sampling) -> None:
    """Oracle: numpy's generator and arithmetic, from the same logits."""
    for model in pair[:2]:
        text = prompt(12)
        tree = tiny.random_tree(random.Random(2), text[-1], 12)
        evaluation = model.evaluate(text, tree)
        sampler = Sampler(sampling, WORDS)
        for seed, draw in itertools.product(range(4), (0, 1)):
            sampler.begin(prompt(5, seed))
            place = len(text) - 1
            plain: Any = _Plain(evaluation)
            ours = sampler.chooser(evaluation, tree, place, draw)
            theirs = sampler.chooser(plain, tree, place, draw)
            ranked = sampler.ranker(evaluation, tree, place, 7, draw)
            expected = sampler.ranker(plain, tree, place, 7, draw)
            for node in range(len(tree)):
                assert ours(node) == theirs(node) and ranked(node) == expected(node)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ["speculative", "prompt_lookup", "ouroboros"])
def test_every_method_writes_the_text_of_plain_decoding(
    pair: Any, name: str, temperature: float
) -> None:
    texts = []
    for method in ("autoregressive", name):
        sampling = Sampling(temperature=temperature)
        steps = tiny.run(pair[:2], method, prompt(8) * 3, 24, sampling, retrieve=False)
        texts.append(tiny.emitted(steps))
    assert texts[0] == texts[1]


def unrounded(folder: Path, target: CausalLM) -> HeadDrafter:
    """Return a head in the native pass with the weights of its file, as a browser reads them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "rounded", lambda computation: computation)
        return load_head(str(folder), target, "eagle3")


@pytest.fixture(scope="module")
def head(
    web_pass: WebPass, tmp_path_factory: pytest.TempPathFactory
) -> tuple[WebHead, WebModel, HeadDrafter]:
    """Return a random EAGLE-3 head in 8 bits and its target, and the same head in the native pass,
    with the weights of the file."""
    folder, source = tmp_path_factory.mktemp("head"), made(3)
    config = EagleConfig("target", signature(source), 96, 96, 176, 3, 1, depths=(1, 2))
    weights = Eagle3Head(config, OUTPUTS)
    with torch.no_grad():
        for weight in weights.parameters():
            weight.normal_(1.0 if weight.dim() == 1 else 0.0, 0.1)
    weights.save(folder, bits=8)
    (folder / "target").write_bytes(browser.weights_file(source))
    (folder / "head").write_bytes(browser.head_file(folder, source))
    computation = web_pass.model(folder / "target", "target")
    target = WebModel(computation)
    drafter = WebHead(web_pass.model(folder / "head", "head", computation), target)
    native = CausalLM(source, "native", engine="native")
    return drafter, target, unrounded(folder, native)


def assert_equal_logits(drafter: WebHead, native: HeadDrafter, text: list[int]) -> None:
    """Compare the logits after the nodes of a tree."""
    tree = tiny.random_tree(random.Random(1), text[-1], 9)
    evaluation, expected = drafter.evaluate(text, tree), native.evaluate(text, tree)
    for node in range(len(tree)):
        logits = np.array(evaluation.logits(node))
        np.testing.assert_allclose(logits, expected.logits(node), atol=2e-3)
    assert evaluation.likeliest(3) == expected.likeliest(3)


def test_a_head_proposes_what_it_proposes_in_the_native_pass(head: Any) -> None:
    """Oracle: the native pass. Texts grow along a tree of the target's, are cut, and others."""
    drafter, target, native = head
    for text in (prompt(2), prompt(40), [*prompt(40), 5, 6], prompt(30), prompt(90, 1)):
        assert_equal_logits(drafter, native, text)
        target.evaluate(text, tiny.random_tree(random.Random(2), text[-1], 9))


def test_a_heads_row_does_not_depend_on_what_was_evaluated_before(head: Any) -> None:
    """Oracle: the path to a node alone, after everything was forgotten. The second text goes on
    through the tree of the first one, and between the halves of the third tree is another text."""
    drafter, target, _ = head
    text = prompt(20)
    for step in range(3):
        tree = tiny.random_tree(random.Random(step), text[-1], 8)
        half = drafter.evaluate(text, tree.first(4))
        if step == 2:
            drafter.evaluate(prompt(9), TreeBuilder(prompt(9)[-1]).build())
        grown = drafter.extend(half, tree)
        for node in range(len(tree)):
            drafter.forget()
            target.forget()
            path = tree.tokens_to(node)
            line = chain(text[-1], path, Provenance(Source.DRAFT))
            assert bits(drafter, text, line)[len(path)] == grown.logits(node).tobytes()
        text = [*text, *tree.tokens_to(len(tree) - 1), 5]


@pytest.mark.parametrize("name", ["eagle3", "union"])
def test_a_method_with_a_head_writes_the_text_of_plain_decoding(head: Any, name: str) -> None:
    drafter, target, _ = head
    assert written(target, drafter, name, 24) == written(target, drafter, "autoregressive", 24)


def written(target: WebModel, drafter: WebHead, name: str, count: int) -> list[int]:
    """Return the text that a method writes."""
    kind, sampler = methods.get(name), Sampler(Sampling(), target.vocabulary)
    resources = Resources(sampler, heads={"eagle3": drafter})
    chosen = kind.Hyperparameters(**kind.Hyperparameters.fixed())
    method = controlled(methods.create(kind, chosen, resources), TYPICAL)
    return tiny.emitted(
        [*decode(target, method, prompt(8) * 3, max_new_tokens=count, sampler=sampler)]
    )


def test_weights_in_blocks_are_the_numbers_that_the_native_pass_reads(
    web_pass: WebPass, tmp_path: Path
) -> None:
    """Oracle: the same numbers as bfloat16."""
    source, rng, blocks = made(), np.random.default_rng(1), {}
    with torch.no_grad():
        for name, linear, kind in (
            ("token_embd", source.get_input_embeddings(), "Q8_0"),
            ("blk.1.ffn_up", source.model.layers[1].mlp.up_proj, "Q4_1"),
        ):
            outer, inner = linear.weight.shape
            data = rng.integers(0, 256, (outer, inner // 32, BYTES[kind]), dtype=np.uint8)
            scales = 1 if kind == "Q8_0" else 2
            factors = rng.normal(0, 0.002, (outer, inner // 32, scales)).astype(np.float16)
            data[..., : 2 * scales] = factors.view(np.uint8).reshape(outer, inner // 32, -1)
            blocks[name] = Blocks(kind, data)
            linear.weight.copy_(read(blocks[name]))
    models = []
    for name, in_file in (("blocks", blocks), ("plain", {})):
        (tmp_path / name).write_bytes(browser.weights_file(source, in_file))
        models.append(WebModel(web_pass.model(tmp_path / name, name)))
    sizes = [(tmp_path / name).stat().st_size for name in ("blocks", "plain")]
    assert sizes[0] < sizes[1]
    text = prompt(20)
    tree = tiny.random_tree(random.Random(1), text[-1], 5)
    assert bits(models[0], text, tree) == bits(models[1], text, tree)


def read(blocks: Blocks) -> torch.Tensor:
    """Return the weights [out, in] of blocks, by the definition of the format."""
    outer, groups, _ = blocks.data.shape
    scales = 1 if blocks.kind == "Q8_0" else 2
    data = np.ascontiguousarray(blocks.data[..., : 2 * scales])
    sizes = data.view(np.float16).astype(np.float32)
    numbers = blocks.data[..., 2 * scales :]
    if blocks.kind == "Q8_0":
        weights = numbers.view(np.int8) * sizes
    else:
        halves = np.concatenate([numbers & 15, numbers >> 4], axis=-1)
        weights = halves * sizes[..., :1] + sizes[..., 1:]
    return torch.from_numpy(weights.reshape(outer, 32 * groups)).bfloat16()


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tied embeddings"):
        browser.weights_file(tiny.target("llama", dtype=torch.float32))
    with pytest.raises(InvalidInput, match="qwen2"):
        browser.weights_file(tiny.target("qwen2", dtype=torch.float32))


def test_without_the_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match="pip install ziglang"):
        build.browser_builds()


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.parametrize("web_pass", IN_NODE, indirect=True, ids="-".join)
def test_the_embedded_pair_computes_as_in_the_native_pass(
    web_pass: WebPass, tmp_path: Path
) -> None:
    """Oracle: the converted weights in the native pass, and passes over one row each. The weights
    have at most 130 MB. In Chromium the test of the live page loads them."""
    sizes = browser.write(tmp_path)
    assert sum(size for name, size in sizes.items() if name.endswith(".bin")) <= 130e6
    computation = web_pass.model(tmp_path / "target.bin", "target")
    models = [
        WebModel(computation),
        WebModel(web_pass.model(tmp_path / "draft.bin", "draft", computation)),
    ]
    source = transformers.AutoModelForCausalLM.from_pretrained(
        embedded.ensure_target(), dtype=torch.float32
    )
    native = CausalLM(source, "native", engine="native")
    rng = random.Random(1)
    text = [rng.randrange(2000) for _ in range(21)]
    tree = tiny.random_tree(rng, text[-1], 6)
    expected = native.evaluate(text, tree)
    evaluation = models[0].evaluate(text, tree)
    for node in range(len(tree)):
        difference = np.array(evaluation.logits(node)) - expected.logits(node)
        assert np.abs(difference).max() < 2e-3
    for model in models:
        assert_alone(model, text, tree)
    drafter = WebHead(web_pass.model(tmp_path / "eagle3.bin", "head", computation), models[0])
    assert_equal_logits(drafter, unrounded(embedded.head_folder(), native), text)
