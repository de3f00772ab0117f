"""Weights in the blocks of a GGUF file: against the same numbers in bfloat16, to the bit."""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from ouroboros_core.errors import InvalidInput, WeightsUnavailable
from ouroboros_core.loading import measured as keeping
from ouroboros_core.loading.blocks import rows_that_gain, use_blocks
from ouroboros_core.loading.gguf import read_blocks
from ouroboros_core.loading.pairs import Execution, Placement, load_pair
from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import build
from ouroboros_core.models.engines.native import decoder as native
from ouroboros_core.models.engines.native.blocks import KINDS, Blocks
from ouroboros_core.models.forward import EVERY_ROW
from ouroboros_core.tree import TreeBuilder
from tests import tiny
from tests.ouroboros_core.models.engines.native.test_decoder import (
    DTYPES,
    made,
    one_by_one,
    wrapper,
)

SCALES = (0.0, 6e-8, -6e-8, 3e-5, 0.01, -0.02, 0.03, 0.04)
"""What a file may say: nothing, the least number of 16 bits, one that is not normal, usual ones."""
EXTREME = (*SCALES, 4000.0, -65504.0)

FIELDS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def blocks_of(
    kind: str, outer: int, inner: int, seed: int, scales: tuple[float, ...] = SCALES
) -> Blocks:
    """Random blocks as they lie in a file."""
    rng = np.random.default_rng(seed)
    shape = outer, inner // 32
    count = 2 if kind == "Q4_1" else 1
    said = rng.choice(np.array(scales, np.float16), (*shape, count))
    numbers = rng.integers(0, 256, (*shape, 16 if kind == "Q4_1" else 32), np.uint8)
    return Blocks(kind, np.concatenate([said.view(np.uint8), numbers], axis=-1))


def weights_of(blocks: Blocks) -> torch.Tensor:
    """The bfloat16 weights by the gguf package, as transformers makes them."""
    flat = blocks.data.reshape(len(blocks.data), -1)
    found = gguf.quants.dequantize(flat, gguf.GGMLQuantizationType[blocks.kind])
    return torch.from_numpy(found).bfloat16()


def model_of(dtype: torch.dtype) -> tuple[Any, dict[str, Blocks]]:
    """A random model, and its weights in blocks with the outputs in transformers' order."""
    model = made("llama", dtype, hidden_size=64, head_dim=32, intermediate_size=96)
    found: dict[str, Blocks] = {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            layer, _, part = name.removeprefix("model.layers.").partition(".")
            field = FIELDS.get(part.removesuffix(".weight"))
            if field is None and not name.startswith("lm_head"):
                continue
            kind = "Q4_1" if field else "Q8_0"
            if field == "ffn_down":
                kind = "Q8_0"  # a file may mix them
            outer, inner = weight.shape
            blocks = blocks_of(kind, outer, inner, len(found))
            weight.copy_(weights_of(blocks))
            found[f"blk.{layer}.{field}" if field else "output"] = blocks
    return model, found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_with_blocks_is_that_with_their_bfloat16_numbers_to_the_bit(
    kind: str, dtype: torch.dtype
) -> None:
    """Also where scales are nothing, hardly a number, or huge; oracle of the numbers: the package
    gguf."""
    for outer, inner in ((31, 32), (64, 96), (98, 160)):
        blocks = blocks_of(kind, outer, inner, outer, EXTREME)
        weight = weights_of(blocks)
        product = native.NativeProduct(weight, torch.ones(outer))
        assert product.add_blocks(blocks)
        for rows in (1, 2, 3, 4, 7, 12, 13, 30):
            x = torch.randn(rows, inner).to(dtype)
            product.block_rows = 0
            plain = product(x)
            product.block_rows = rows
            assert torch.equal(product(x), plain)
            exact = x.double() @ weight.double().T + 1
            assert (plain.double() - exact).abs().max() <= 1e-2 * exact.abs().max()


def in_eight_bits(weight: torch.Tensor) -> torch.Tensor:
    """A weight rounded to 8 bits as llama.cpp's Q8_0 does it, with a scale in float32."""
    outer, inner = weight.shape
    values = weight.float().view(outer, inner // 32, 32)
    scale = values.abs().amax(-1, keepdim=True) / 127
    numbers = (values / scale.where(scale > 0, 1.0)).round()
    return (numbers * scale).bfloat16().view(outer, inner)


@pytest.fixture
def rounds() -> None:
    library = build.library()
    if not (library and library.ouroboros_few()):
        pytest.skip("without AVX512-BF16 drafts are not rounded")


@pytest.mark.usefixtures("rounds")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_rounded_product_is_that_with_the_rounded_numbers_for_any_rows(
    dtype: torch.dtype,
) -> None:
    """Oracle of the rounding: torch. A row of zeros has no scale."""
    for outer, inner in ((31, 32), (64, 96), (98, 160)):
        weight = torch.randn(outer, inner).bfloat16()
        weight[3] = 0
        product, oracle = native.NativeProduct(weight), native.NativeProduct(in_eight_bits(weight))
        product.round()
        assert product.in_blocks is not None and product.block_rows > 1, "both formats are read"
        for rows in (1, 2, 3, 4, 7, 12, 13, 30):
            x = torch.randn(rows, inner).to(dtype)
            assert torch.equal(product(x), oracle(x))
            assert torch.equal(product(x[:1]), oracle(x)[:1])


@pytest.mark.usefixtures("rounds")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("hidden", [64, 48])
def test_a_rounded_draft_is_the_model_with_rounded_weights(dtype: torch.dtype, hidden: int) -> None:
    """Layers and output matrix; in a pass over few rows and over many. Products whose inputs do not
    fill blocks of 32 keep their weights."""
    model = made("llama", dtype, hidden_size=hidden, head_dim=32, intermediate_size=96)
    small = wrapper(model)
    small.round_weights()
    assert isinstance(small.forward_pass.decoder, native.NativeDecoder)
    assert small.forward_pass.decoder.block_rows > 1, "both formats are read"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name and weight.shape[1] % 32 == 0:
                weight.copy_(in_eight_bits(weight))
    oracle = wrapper(model)
    for length in (1, 17, 70):
        context = tiny.prompt(length)
        tree = tiny.random_tree(random.Random(length), context[-1], 9)
        found, expected = small.evaluate(context, tree), oracle.evaluate(context, tree)
        for node in range(len(tree)):
            assert np.array_equal(found.logits(node), expected.logits(node))
    assert np.array_equal(one_by_one(small, context), one_by_one(oracle, context))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_pass_over_blocks_has_the_bits_of_one_over_bfloat16(dtype: torch.dtype) -> None:
    """Random trees and chunks of a prompt; some passes of a text by blocks, others not."""
    model, blocks = model_of(dtype)
    plain, mixed = wrapper(model), wrapper(model)
    assert mixed.add_blocks(blocks) == 2 * len(native.PRODUCTS) + 1, "of two layers, the output"
    rng = random.Random(3)
    for rows, said in ((1, "up to 1 row,"), (4, "up to 4 rows,"), (EVERY_ROW, "blocks")):
        mixed.read_blocks(rows)
        assert said in mixed.weights
        for length in (1, 17, 70, PREFILL_CHUNK + 20):
            context = tiny.prompt(length)
            tree = tiny.random_tree(rng, context[-1], rng.choice((2, 3, 9, 24)))
            found, expected = mixed.evaluate(context, tree), plain.evaluate(context, tree)
            for node in range(len(tree)):
                assert np.array_equal(found.logits(node), expected.logits(node))
        branch = [*context[:40], *tree.tokens_to(len(tree) - 1)]
        plain.forget()
        assert np.array_equal(one_by_one(mixed, branch), one_by_one(plain, branch))
    padded = CausalLM(model, "padded", 20, engine="native")
    padded.add_blocks(blocks)
    padded.read_blocks(EVERY_ROW)
    found = padded.evaluate(context, tree)
    assert np.array_equal(found.logits(0), expected.logits(0)[:20])


def test_a_corrupted_block_gives_way_to_bfloat16() -> None:
    """One bit of one block of one weight."""
    model, blocks = model_of(torch.float32)
    whole = blocks["blk.1.ffn_up"]
    place = np.argwhere(whole.data.view(np.float16)[..., 0] > 0.02)[0]
    for byte in (1, 6):  # of a scale, of the numbers
        data = whole.data.copy()
        data[place[0], place[1], byte] ^= 8
        damaged = {**blocks, "blk.1.ffn_up": Blocks(whole.kind, data)}
        found, plain = wrapper(model), wrapper(model)
        assert found.add_blocks(damaged) == 2 * len(native.PRODUCTS), "all but that one"
        found.read_blocks(EVERY_ROW)
        text = tiny.prompt(30)
        root = TreeBuilder(text[-1]).build()
        expected = plain.evaluate(text, root).logits(0)
        assert np.array_equal(found.evaluate(text, root).logits(0), expected)


def write(file: Path, blocks: dict[str, Blocks], heads: dict[str, int]) -> str:
    """A GGUF file of a Llama, as llama.cpp's converter orders queries and keys."""
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
    writer.add_array("tokenizer.ggml.scores", [1.0, 2.0, 3.0])
    writer.add_tensor("output_norm.weight", np.ones(64, np.float32))
    for name, one in blocks.items():
        count = heads.get(name.rpartition(".")[2])
        data = one.data.reshape(len(one.data), -1)
        if count:
            data = data.reshape(count, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        kind = gguf.GGMLQuantizationType[one.kind]
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(file)


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CausalLM, str]:
    """A checked model and the file that it comes from."""
    build.library()  # out of the usual cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, blocks = model_of(torch.float32)
    return wrapper(model), write(tmp_path / "m.gguf", blocks, {"attn_q": 4, "attn_k": 2})


def test_a_files_blocks_are_read_as_they_lie_in_it(loaded: tuple[CausalLM, str]) -> None:
    """Oracle: the package gguf."""
    said, found = read_blocks(Path(loaded[1]))
    reader = gguf.GGUFReader(loaded[1])
    assert said["general.architecture"] == "llama"
    tensors = {t.name: t for t in reader.tensors if t.name != "output_norm.weight"}
    assert {f"{name}.weight" for name in found} == set(tensors)
    for name, blocks in found.items():
        tensor = tensors[f"{name}.weight"]
        assert blocks.kind == tensor.tensor_type.name
        assert np.array_equal(blocks.data.reshape(len(blocks.data), -1), tensor.data)


def test_a_loaded_model_reads_blocks_where_they_are_asked_for_or_faster(
    loaded: tuple[CausalLM, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = loaded
    use_blocks(model, file, "bf16")
    assert model.weights == "bf16"
    use_blocks(model, file, "blocks")
    assert model.weights == "blocks"
    gains: list[int] = [6]
    monkeypatch.setattr("ouroboros_core.loading.blocks.rows_that_gain", lambda *_: gains.pop())
    for _ in range(2):  # the second time it stands in the cache folder
        use_blocks(model, file, "auto")
        assert model.weights == "blocks up to 6 rows, then bf16"
        model.read_blocks(0)


def test_one_of_several_processes_times_the_blocks_and_the_others_read_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two threads stand for them, each with a lock of its own. The oracle is what the first one
    timed; a second timing would say something else."""
    gains: list[int] = [6, 3]
    model, _ = tiny.pair("llama")

    def timed() -> int:
        time.sleep(0.2)
        return gains.pop(0)

    monkeypatch.setattr(keeping, "file_of", lambda *_: tmp_path / "costs" / "blocks-x.json")
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: keeping.measured_once("blocks", model, timed), range(2)))
    assert found == [6, 6] and gains == [3]


def test_blocks_whose_pass_gives_something_else_are_not_read(
    loaded: tuple[CausalLM, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, file = loaded
    add = native.NativeProduct.add_blocks

    def faulty(self: native.NativeProduct, blocks: Blocks) -> bool:
        done = add(self, blocks)
        self._packed[0, 0, :64] = 0  # behind the comparison of the numbers
        return done

    monkeypatch.setattr(native.NativeProduct, "add_blocks", faulty)
    with caplog.at_level(logging.WARNING):
        use_blocks(model, file, "auto")
    assert model.weights == "bf16" and len(caplog.records) == 1
    assert "their pass gives other logits here" in caplog.text
    with pytest.raises(InvalidInput, match="gives other logits"):
        use_blocks(model, file, "blocks")


def test_a_model_without_blocks_refuses_them_and_says_why(
    loaded: tuple[CausalLM, str], tmp_path: Path
) -> None:
    model, file = loaded
    with pytest.raises(InvalidInput, match=r"does not come from a GGUF file\. Leave --weights out"):
        use_blocks(model, str(tmp_path), "blocks")
    torchs = CausalLM(model.model, "tiny", engine="compact")
    with pytest.raises(InvalidInput, match="only the native pass reads blocks"):
        use_blocks(torchs, file, "blocks")
    (tmp_path / "broken.gguf").write_bytes(Path(file).read_bytes()[:400])
    with pytest.raises(WeightsUnavailable, match="cannot be read as a GGUF file"):
        use_blocks(model, str(tmp_path / "broken.gguf"), "blocks")
    use_blocks(model, str(tmp_path / "broken.gguf"), "auto")
    assert model.weights == "bf16"


def test_blocks_are_read_up_to_the_rows_that_gain_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes whose seconds are made up: one way costs 1 + rows, the other 4."""
    way: list[bool] = []
    monkeypatch.setattr(
        "ouroboros_core.loading.blocks.pass_of",
        lambda _, rows, __: lambda: 1.0 + rows if way[-1] else 4.0,
    )
    assert rows_that_gain(None, way.append, (1, 2, 3, 4)) == 2  # type: ignore[arg-type]
    assert rows_that_gain(None, way.append, (4, 8)) == 0  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(torch.bfloat16 not in DTYPES, reason="no bfloat16 here")
def test_the_embedded_target_has_the_same_logits_in_both_formats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # its file is fetched once
    target = load_pair(
        draft="none",
        head="none",
        corpus="none",
        placement=Placement(dtype="bfloat16"),
        execution=Execution(weights="blocks"),
    ).target
    assert target.weights == "blocks"
    rng = random.Random(4)
    context = tiny.prompt(90)
    tree = tiny.random_tree(rng, context[-1], 7)
    found = []
    for rows in (EVERY_ROW, 0):
        target.forget()
        target.read_blocks(rows)
        evaluation = target.evaluate(context, tree)
        found.append([evaluation.logits(node) for node in range(len(tree))])
    assert np.array_equal(found[0], found[1])
