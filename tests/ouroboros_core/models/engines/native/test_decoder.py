"""The native pass: against transformers' own up to rounding, and against itself to the bit."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from ouroboros_core.loading import check, machine
from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native import build
from ouroboros_core.models.engines.native import decoder as native
from ouroboros_core.models.engines.passes import Engine, engines
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder
from tests import tiny
from tests.commands import finished

KINDS: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 48, "head_dim": 64},
    "qwen2": {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1},
    "qwen3": {"hidden_size": 48, "head_dim": 128, "num_attention_heads": 6},
    "mistral": {"hidden_size": 80, "head_dim": 32, "sliding_window": None},
}
"""Heads of 64, 32 (with biases), 128 (with norms) and 32 numbers; the vocabulary is odd."""

DTYPES = [dtype for dtype in native.DTYPES if native.available(dtype)]
CLOSE = {torch.float32: 2e-4, torch.bfloat16: 0.15}
CONTEXTS = (1, 2, 15, 16, 17, 33, 70)


def made(kind: str, dtype: torch.dtype, **changes: Any) -> Any:
    """A random model whose weights are bfloat16 numbers."""
    sizes = {**tiny._SIZES, "num_key_value_heads": 2, "max_position_embeddings": 1024}
    settings = {**sizes, "intermediate_size": 80, **KINDS[kind], **changes}
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3) if weight.dim() > 1 else weight.normal_(1, 0.2)
    return model.to(torch.bfloat16).to(dtype).eval()


def wrapper(model: Any) -> CausalLM:
    assert engines(model)[0] == "native"
    return CausalLM(model, "tiny", engine="native")


def one_by_one(model: CausalLM, text: list[int], known: int = 1) -> np.ndarray[Any, Any]:
    """Logits after a text whose tokens go in one at a time; the first `known` did before."""
    for end in range(known, len(text) + 1):
        last = model.evaluate(text[:end], TreeBuilder(text[end - 1]).build())
    return last.logits(0)


@torch.inference_mode()
def plain(model: Any, text: list[int]) -> Any:
    logits = model(input_ids=torch.tensor([text]), use_cache=False).logits
    return logits[0, -1].float().numpy()


def test_it_is_there() -> None:
    """The other tests run over the dtypes that can be computed here."""
    assert torch.float32 in DTYPES, "no C++ compiler: install g++ or clang, or pip install ziglang"
    assert (torch.bfloat16 in DTYPES) == bool(build.library().ouroboros_half())  # type: ignore[union-attr]


def assert_branches(text: list[int], evaluation: Any, alone: CausalLM) -> None:
    """Every node has to the bit what its branch alone has, one token at a time."""
    one_by_one(alone, text)
    for node in range(len(evaluation.tree)):
        branch = [*text, *evaluation.tree.tokens_to(node)]
        assert np.array_equal(evaluation.logits(node), one_by_one(alone, branch, len(text))), node


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_has_the_logits_of_its_branches_alone_to_the_bit(
    kind: str, dtype: torch.dtype
) -> None:
    """Behind contexts that end within a block of 16 keys, at its end and behind it; context rows in
    the same pass, in chunks, or cached; and after an accepted path was compacted in the cache."""
    model = made(kind, dtype)
    together, alone, rng = wrapper(model), wrapper(model), random.Random(0)
    for length in CONTEXTS:
        context = tiny.prompt(length, length)
        for _ in range(2):
            tree = tiny.random_tree(rng, context[-1], rng.choice((2, 5, 13, 24)))
            found = together.evaluate(context, tree)
            assert_branches(context, found, alone)
            for node in range(len(tree)):
                branch, logits = [*context, *tree.tokens_to(node)], found.logits(node)
                difference = np.abs(logits - plain(model, branch)).max()
                assert difference <= CLOSE[dtype] * np.abs(logits).max()
            context = [*branch, rng.randrange(tiny.VOCABULARY)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parents", [(0, 0, 2), (0, 1, 0, 0, 4)], ids=str)
def test_a_fork_behind_any_length_has_the_logits_of_its_branches(
    parents: tuple[int, ...], dtype: torch.dtype
) -> None:
    """A branch that lies in the cache in order stands among ones that do not, and the text ends
    anywhere in a block of 16 keys."""
    model, alone = wrapper(made("llama", dtype)), wrapper(made("llama", dtype))
    text = tiny.prompt(36)
    for length in range(1, len(text)):
        context, builder = text[:length], TreeBuilder(text[length - 1])
        for token, above in enumerate(parents, 1):
            builder.add(token, above, Provenance(Source.DRAFT))
        tree = builder.build()
        for ready in (False, True):
            model.forget()
            if ready:
                model.prefill(context)
            found = model.evaluate(context, tree)
            for node in range(len(tree)):
                branch = context + tree.tokens_to(node)
                alone.forget()
                last = alone.evaluate(branch, TreeBuilder(branch[-1]).build()).logits(0)
                assert np.array_equal(found.logits(node), last), (length, node, ready)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_keys_that_many_heads_share_are_seen_alike(dtype: torch.dtype) -> None:
    """More heads than are computed at a time, behind blocks in order and gathered ones."""
    model = made("qwen3", dtype, num_attention_heads=18, num_key_value_heads=1, head_dim=32)
    context = tiny.prompt(21)
    tree = tiny.random_tree(random.Random(1), context[-1], 20)
    assert_branches(context, wrapper(model).evaluate(context, tree), wrapper(model))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tree_that_grows_has_the_logits_of_one_pass(dtype: torch.dtype) -> None:
    model, context = wrapper(made("llama", dtype)), tiny.prompt(21)
    tree = tiny.random_tree(random.Random(1), context[-1], 20)
    whole = model.evaluate(context, tree)
    grown = model.evaluate(context, tree.first(1))
    for size in (4, 5, 12, 20):
        grown = model.extend(grown, tree.first(size))
    for node in range(len(tree)):
        assert np.array_equal(grown.logits(node), whole.logits(node))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_chunks_of_a_long_prompt_and_any_number_of_threads_give_the_same_bits(
    dtype: torch.dtype,
) -> None:
    text, model = tiny.prompt(PREFILL_CHUNK + 90), wrapper(made("qwen2", dtype))
    expected = one_by_one(model, text)
    threads = torch.get_num_threads()
    try:
        for count in range(1, 9):
            torch.set_num_threads(count)
            model.forget()
            model.prefill(text)
            assert np.array_equal(one_by_one(model, text, len(text)), expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("engine", ["native", "compact"])
def test_of_a_prompt_only_rows_that_are_asked_about_meet_the_output_matrix(engine: Engine) -> None:
    """None of a plain prefill's; the last of every token where candidates are wanted."""
    model = CausalLM(made("llama", torch.float32), "tiny", engine=engine)
    met: list[int] = []
    project = model.forward_pass.project

    def counted(hidden: torch.Tensor) -> torch.Tensor:
        met.append(len(hidden))
        return project(hidden)

    model.forward_pass.project = counted
    text = tiny.prompt(PREFILL_CHUNK + 90)
    model.prefill(text)
    assert not met
    model.evaluate(text, TreeBuilder(text[-1]).build())
    assert met.pop() == 1 and not met
    model.prefill(text, 3)
    assert sum(met) == len(set(text[:-1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_features_are_the_hidden_states_between_the_layers(dtype: torch.dtype) -> None:
    model = made("llama", dtype, num_hidden_layers=4)
    found = []
    for engine in ("native", "transformers"):
        one = CausalLM(model, "tiny", engine=engine)
        one.keep_features((1, 3))
        found.append(one.features(tiny.prompt(40)).float())
    assert found[0].shape == (39, 3 * 48)
    assert (found[0] - found[1]).abs().max() <= CLOSE[dtype] * found[1].abs().max()


def test_weights_that_bfloat16_cannot_hold_are_left_to_torch() -> None:
    model = made("llama", torch.float32)
    assert engines(model)[0] == "native"
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 4] += 1e-4
    assert engines(model) == ["compact", "transformers"]
    assert engines(made("llama", torch.float64)) == ["compact", "transformers"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_bfloat16_holds_a_weight_that_comes_back_from_it_the_same(dtype: torch.dtype) -> None:
    weight = torch.randn(6, 10).bfloat16().to(dtype)
    other = weight.clone()
    other[3, 4] = torch.nextafter(weight[3, 4], torch.tensor(torch.inf, dtype=dtype))
    for one in (weight, weight.t()):
        assert native.exact(one)
    for one in (other, other.t()):
        assert not native.exact(one)


@pytest.mark.parametrize("broken", ["wrong", "rows change one another"])
def test_a_pass_that_computes_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    run = native.NativeDecoder.run

    def faulty(self: native.NativeDecoder, rows: Rows, cache: TreeCache) -> Any:
        hidden, states = run(self, rows, cache)
        wrong = -1.0 if broken == "wrong" else 1.0 + 1e-4 * (len(rows.x) > 1)
        return hidden * wrong, states

    model = made("llama", torch.float32)
    assert check.checked(model, "tiny").engine == "native"
    monkeypatch.setattr(native.NativeDecoder, "run", faulty)
    with caplog.at_level(logging.WARNING):
        assert check.checked(model, "tiny").engine == "compact"
    assert "the native pass is not used" in caplog.text


def test_without_a_compiler_torch_computes_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "compilers", lambda: [])
    with caplog.at_level(logging.WARNING):
        assert build.library.__wrapped__() is None
    assert "there is no C++ compiler" in caplog.text and "ziglang" in caplog.text
    monkeypatch.setattr(build, "library", lambda: None)
    assert engines(made("llama", torch.float32)) == ["compact", "transformers"]


def test_what_a_compiler_refuses_it_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second time takes as long, and says the same."""
    asked: list[Any] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        if len(asked) > 1:
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1, "", "no such instruction")

    monkeypatch.setattr(build, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(build, "library", lambda: None)
    monkeypatch.setattr(build, "compilers", lambda: [["c++"], ["g++"]])
    monkeypatch.setattr(subprocess, "run", run)
    why = build.missing()
    assert why == "c++: no such instruction; g++: not done within 300 s"
    assert build.missing() == why and len(asked) == 2


def test_what_compiles_in_the_background_is_waited_for_and_compiled_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Oracle: the compiler's calls are counted, and the file that it was slow to make is there."""
    asked: list[Path] = []

    def compile_slowly(_: Path, file: Path) -> None:
        asked.append(file)
        time.sleep(0.2)
        file.parent.mkdir()
        file.write_bytes(b"no library")

    monkeypatch.setattr(build, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(build, "_compile", compile_slowly)
    monkeypatch.delenv(build.SWITCH, raising=False)
    compiling = build.begin()
    while not asked and compiling.is_alive():
        time.sleep(0.01)
    said = build._library()
    (file,) = asked
    assert file.exists() and isinstance(said, str) and file.name in said
    compiling.join()
    assert len(asked) == 1


def test_the_ziglang_package_compiles_where_there_is_no_other_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    for there in (None, object()):
        monkeypatch.setattr("importlib.util.find_spec", lambda _, there=there: there)
        ours = [sys.executable, "-m", "ziglang", "c++"]
        assert build.compilers() == ([ours] if there else [])
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert build.compilers()[0] == ["/bin/c++"] and build.compilers()[-1] == ours


def test_without_torchs_threads_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread of ours is slower than several of torch's."""
    monkeypatch.setattr(build, "openmp", lambda: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert not native.available(torch.float32)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert native.available(torch.float32)


def test_a_library_without_wide_instructions_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plainest = ["-march=x86-64" if flag == "-march=native" else flag for flag in build.FLAGS]
    monkeypatch.setattr(build, "FLAGS", tuple(plainest))
    with caplog.at_level(logging.WARNING):
        assert build.library.__wrapped__() is None
    assert "without this processor's wide instructions" in caplog.text


WITHOUT_AMX = "-U__AMX_BF16__"


def has_amx() -> bool:
    library = build.library()
    return library is not None and bool(library.ouroboros_amx())


@pytest.mark.skipif(not has_amx(), reason="there is no AMX")
def test_amx_computes_the_products_of_vectors_in_another_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """AMX adds even and odd inputs apart, so that the first row's large products meet before the
    1; by vectors it has gone by then."""
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, WITHOUT_AMX))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    vectors = build.library.__wrapped__()
    assert vectors is not None and not vectors.ouroboros_amx()
    torch.manual_seed(0)
    weight, x = torch.randn(70, 96).bfloat16(), torch.randn(65, 96).bfloat16()
    x[0] = weight[0] = 0
    x[0, :3], weight[0, :3] = torch.tensor([[2.0**15, 1, 2.0**15], [2.0**15, 1, -(2.0**15)]])
    product = native.NativeProduct(weight)
    by_amx, exact = product(x), x.double() @ weight.double().T
    for rows in (1, 15, 16, 17, 31, 32, 33):
        assert torch.equal(product(x[:rows]), by_amx[:rows])
    monkeypatch.setattr(product, "_library", vectors)
    by_vectors = product(x)
    assert (by_amx[0, 0].item(), by_vectors[0, 0].item()) == (1, 0)
    for found in (by_amx, by_vectors):
        torch.testing.assert_close(found[1:].double(), exact[1:], atol=1e-4, rtol=2**-8)


SANITIZED = """
import random, pytest, torch
from ouroboros_core.models.engines.native import build, pages
pages.empty = lambda shape, dtype: torch.empty(*shape, dtype=dtype)  # memory that it watches
build.TIME_LIMIT = 1800
build.FLAGS += (*{flags}, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
from tests.ouroboros_core.models.engines.native import test_blocks as b
from tests.ouroboros_core.models.engines.native import test_choose as c
from tests.ouroboros_core.models.engines.native import test_decoder as t
rng = random.Random(5)
for dtype in c.DTYPES:
    for columns, k in c.SIZES:
        c.test_the_largest_columns_are_those_that_torch_finds(columns, k, dtype)
        c.test_what_is_no_number_is_above_all_numbers_as_in_torch(columns, k, dtype)
    for columns in (5, 16, 35, 700):
        c.test_infinite_logits_and_rows_of_equals_are_chosen_from_as_torch_does(columns, dtype)
    with pytest.MonkeyPatch.context() as patch:
        c.test_by_way_of_blocks_they_are_the_same_with_and_without_the_compiled_code(dtype, patch)
with pytest.MonkeyPatch.context() as patch:
    c.test_rows_of_a_path_move_as_torch_moves_them(patch)
for dtype in t.DTYPES:
    for kind in t.KINDS:
        model = t.wrapper(t.made(kind, dtype))
        for length in (1, 37, 300) if kind == "llama" else (16, 37):
            context = t.tiny.prompt(length)
            tree = t.tiny.random_tree(rng, context[-1], rng.choice((1, 7, 33)))
            together = model.evaluate(context, tree).logits(len(tree) - 1)
            model.forget()
            assert (t.one_by_one(model, context + tree.tokens_to(len(tree) - 1)) == together).all()
    t.test_keys_that_many_heads_share_are_seen_alike(dtype)
    for kind in b.KINDS:
        b.test_a_product_with_blocks_is_that_with_their_bfloat16_numbers_to_the_bit(kind, dtype)
    b.test_a_pass_over_blocks_has_the_bits_of_one_over_bfloat16(dtype)
print("clean")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [(), ("-mno-avx512f",), (WITHOUT_AMX,)], ids=["", "narrower", "without AMX"]
)
def test_nothing_is_read_or_written_beyond_its_end(tmp_path: Path, flags: tuple[str]) -> None:
    """Under the address and the undefined behaviour sanitizer of the compiler; also where the
    processor's widest instructions, or AMX, are left out."""
    if flags == ("-mno-avx512f",) and "avx512f" not in machine._cpu_facts()[1]:
        pytest.skip("this processor has no wider ones")
    if flags == (WITHOUT_AMX,) and not has_amx():
        pytest.skip("there is no AMX")
    asked = [*build.compilers()[0], "-print-file-name=libasan.so"]
    preload = finished(asked, check=True).stdout.strip()
    environment = {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "2"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    script = [sys.executable, "-c", SANITIZED.format(flags=flags)]
    done = finished(script, env={**os.environ, **environment})
    assert done.stdout.strip() == "clean", done.stderr[-3000:]
