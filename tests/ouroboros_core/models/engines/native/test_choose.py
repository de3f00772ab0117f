"""What is chosen from logits by the compiled code: as torch chooses, of equal numbers too."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
import torch

from ouroboros_core.models.engines.native import build
from ouroboros_core.models.engines.native.choose import LogitRows, logit_rows
from ouroboros_core.models.forward import BLOCK, TorchEvaluation
from ouroboros_core.models.kv_cache import TreeCache
from ouroboros_core.tree import TreeBuilder

DTYPES = [torch.bfloat16, torch.float32]
SIZES = [(7, 3), (200, 1), (256, 4), (300, 8), (1000, 16), (12_288, 4), (128 * 130, 10)]
"""Columns and k; with few columns torch sorts otherwise, with many there are blocks."""


def rows(columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Five rows of numbers of which many are equal, lying further apart than they are long."""
    torch.manual_seed(columns)
    return (torch.randn(5, columns + 3) * 4).round().div(4).to(dtype)[:, :columns]


def chosen_from(logits: torch.Tensor) -> LogitRows:
    found = logit_rows(logits)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("columns", "k"), SIZES)
def test_the_largest_columns_are_those_that_torch_finds(
    columns: int, k: int, dtype: torch.dtype
) -> None:
    logits = rows(columns, dtype)
    found = chosen_from(logits)
    assert found.argmax().tolist() == logits.argmax(-1).tolist()
    assert found.top(k).tolist() == logits.topk(k).indices.tolist()
    some = [4, 0]
    ids, scores = found.scored(some, k)
    assert ids.tolist() == logits[some].topk(k).indices.tolist()
    # In float32 torch itself is further off where a processor has no AVX-512.
    exact = logits[some].double().log_softmax(-1).gather(1, torch.tensor(ids).long())
    torch.testing.assert_close(torch.from_numpy(scores).double(), exact, atol=4e-6, rtol=0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_rows_are_chosen_from_by_any_number_of_threads(threads: int) -> None:
    """As torch chooses, whichever thread takes a row."""
    torch.manual_seed(threads)
    logits = torch.randn(40, 12_288)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for count in (0, 1, 17, 18, 40):
            some = logits[:count]
            found = chosen_from(some)
            for _ in range(8):
                assert found.argmax().tolist() == some.argmax(-1).tolist()
                assert found.top(4).tolist() == some.topk(4).indices.tolist()
    finally:
        torch.set_num_threads(before)


CHECKED = r"""
#include "choose.h"
#include <random>

#ifdef __GLIBCXX__
constexpr bool SAME_ORDER = true;
#else
constexpr bool SAME_ORDER = false;
#endif

int main() {
  std::mt19937 random(1);
  for (int64_t k = 1; k <= 40; k++) {
    std::vector<float> x(64 * k + 37);
    for (float& value : x) value = (float)(random() % 500);
    std::vector<Ranked> every(x.size()), found(k + 1);
    for (size_t i = 0; i < x.size(); i++) every[i] = {x[i], (int32_t)i};
    std::partial_sort(every.begin(), every.begin() + k, every.end(), above);
    top(x.data(), (int64_t)x.size(), k, found.data());
    for (int64_t i = 0; i < k; i++)
      if (found[i].first != every[i].first || (SAME_ORDER && found[i] != every[i])) return 1;
  }
}
"""


@pytest.mark.skipif(not build.compilers(), reason="there is no C++ compiler")
def test_the_heap_is_one_to_a_strict_standard_library(tmp_path: Path) -> None:
    """libstdc++'s own checks end the program where a heap is asked for and there is none. The
    oracle of what is found is partial_sort, which torch.topk is; the orders are compared where
    that is libstdc++'s."""
    (tmp_path / "main.cpp").write_text(CHECKED, encoding="utf-8")
    header = Path(build.__file__).parent
    command = [*build.compilers()[0], "-std=c++20", "-march=native", "-D_GLIBCXX_DEBUG"]
    command += [f"-I{header}", str(tmp_path / "main.cpp"), "-o", str(tmp_path / "main")]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    done = subprocess.run([tmp_path / "main"], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [5, 16, 35, 700])
def test_infinite_logits_and_rows_of_equals_are_chosen_from_as_torch_does(
    columns: int, dtype: torch.dtype
) -> None:
    """What a processor of logits forbids is -inf; a row may hold nothing else."""
    logits = rows(columns, dtype)
    logits[0], logits[1] = -torch.inf, 2.5
    logits[2, ::3], logits[3, columns // 2] = -torch.inf, torch.inf
    found = chosen_from(logits)
    assert found.argmax().tolist() == logits.argmax(-1).tolist()
    for k in (1, 5):
        assert found.top(k).tolist() == logits.topk(k).indices.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("columns", "k"), SIZES)
def test_what_is_no_number_is_above_all_numbers_as_in_torch(
    columns: int, k: int, dtype: torch.dtype
) -> None:
    """A broken model's logits; nothing is read or written beyond its end then, either."""
    logits = rows(columns, dtype)
    logits[0], logits[1, ::2], logits[2, -1], logits[3, :k] = (torch.nan,) * 4
    found = chosen_from(logits)
    assert found.top(k).tolist() == logits.topk(k).indices.tolist()
    assert all(0 <= column < columns for column in found.argmax())


@pytest.mark.parametrize("dtype", DTYPES)
def test_by_way_of_blocks_they_are_the_same_with_and_without_the_compiled_code(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = rows(BLOCK * BLOCK, dtype).contiguous()
    tree = TreeBuilder(0).build()
    evaluation = TorchEvaluation(logits[:1], [0], tree, None, logits.shape[1])
    here = [evaluation.likeliest(k) for k in (1, 4, 8, 32)]
    monkeypatch.setattr("ouroboros_core.models.forward.logit_rows", lambda _: None)
    assert [evaluation.likeliest(k) for k in (1, 4, 8, 32)] == here


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_is_as_likely_as_torch_says_and_one_that_cannot_be_written_is_not(
    dtype: torch.dtype,
) -> None:
    logits, outputs = rows(300, dtype), torch.arange(300) * 2
    evaluation = TorchEvaluation(logits, range(5), TreeBuilder(0).build(), outputs, 600)
    likely = logits[3].float().softmax(-1)
    for column in (0, 17, 299):
        assert math.isclose(
            evaluation.confidence(3, 2 * column), float(likely[column]), rel_tol=1e-5
        )
    assert evaluation.confidence(3, 35) == evaluation.confidence(3, 599) == 0.0


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("trimmed", [True, False])
def test_probabilities_asked_for_at_once_are_those_of_a_softmax(
    trimmed: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tokens of a node, nodes out of order, and tokens that cannot be written."""
    if not compiled:
        monkeypatch.setattr("ouroboros_core.models.forward.logit_rows", lambda _: None)
    logits, step = rows(300, torch.float32), 2 if trimmed else 1
    outputs = torch.arange(300) * 2 if trimmed else None
    evaluation = TorchEvaluation(logits, range(5), TreeBuilder(0).build(), outputs, 300 * step)
    columns = [(3, 17), (0, 299), (3, 0), (1, 17)]
    asked = [(node, step * column) for node, column in columns]
    expected = [float(logits[node].softmax(-1)[column]) for node, column in columns]
    if trimmed:
        asked, expected = [*asked, (2, 35), (2, 599)], [*expected, 0.0, 0.0]
    assert evaluation.confidences(asked) == pytest.approx(expected, rel=1e-5)
    assert evaluation.confidences([]) == []


def test_torch_chooses_in_double_precision() -> None:
    assert logit_rows(torch.zeros(1, 4, dtype=torch.float64)) is None


def test_rows_of_a_path_move_as_torch_moves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    for compiled in (True, False):
        torch.manual_seed(1)
        cache = TreeCache(2)
        for layer in cache.layers:
            layer.update(torch.randn(1, 3, 40, 6), torch.randn(1, 3, 40, 2))
        if not compiled:
            monkeypatch.setattr(TreeCache, "_move", lambda *_: False)
        cache.keep(30, [31, 32, 35, 39])
        kept += [
            one[:, :, :34].clone() for layer in cache.layers for one in (layer.keys, layer.values)
        ]
        assert cache.get_seq_length() == 34
    for here, there in zip(kept[:4], kept[4:], strict=True):
        assert torch.equal(here, there)


def test_rows_that_do_not_ascend_are_left_to_torch() -> None:
    cache = TreeCache(1)
    cache.layers[0].update(torch.arange(9.0).view(1, 1, 9, 1), torch.zeros(1, 1, 9, 1))
    cache.keep(4, [6, 5])
    assert cache.layers[0].keys[0, 0, :6, 0].tolist() == [0, 1, 2, 3, 6, 5]
