"""The compact pass in fixed shapes. Oracles: transformers' own pass over the whole text, and plain
decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.loading.pairs import Execution, Placement, load_pair
from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines import static
from ouroboros_core.models.engines.static import Inputs, StaticDecoder, bucket
from ouroboros_core.models.kv_cache import GRAIN, TreeCache
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, chain
from tests import tiny
from tests.folders import save
from tests.ouroboros_core.models.engines.test_compact import assert_branches, bush, model


def test_rows_are_padded_to_the_next_bucket() -> None:
    found = [bucket(rows) for rows in (1, 2, 3, 4, 5, 9, 33, 64, 65)]
    assert found == [1, 2, 4, 4, 8, 16, 64, 64, None]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_every_node_has_the_logits_of_its_branch_alone(kind: str) -> None:
    """Behind a context longer than a prefill chunk, after an accepted path was compacted in the
    cache, and where a tree grows."""
    made, text = model(kind), tiny.prompt(PREFILL_CHUNK + 90)
    wrapper = CausalLM(made, kind, engine="static")
    for context in (text, [*text, 4, 7, 3]):
        tree = bush(context[-1])
        evaluation = wrapper.extend(wrapper.evaluate(context, tree.first(3)), tree)
        assert_branches(made, context, evaluation)


def test_features_are_those_of_the_compact_pass() -> None:
    made, text = model("llama"), tiny.prompt(40)
    found = []
    for engine in ("static", "compact"):
        wrapper = CausalLM(made, "llama", engine=engine)
        wrapper.keep_features((1,))
        wrapper.evaluate(text[:-1], bush(text[-2]))
        found.append(wrapper.features(text))
    torch.testing.assert_close(found[0], found[1])


def test_a_bucket_computes_the_same_tensors_at_the_same_places_whatever_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a CUDA graph asks for. Only where the cache has to grow does anything move."""
    seen: list[tuple[int, ...]] = []
    compute = StaticDecoder.compute

    def noted(self: StaticDecoder, inputs: Inputs, held: Any, depths: Any) -> Any:
        rows = (inputs.x, inputs.turns, inputs.mask, inputs.slots)
        tensors = [*rows, *(one for pair in held for one in pair)]
        seen.append((len(inputs.x), *(one.data_ptr() for one in tensors)))
        return compute(self, inputs, held, depths)

    monkeypatch.setattr(StaticDecoder, "compute", noted)
    wrapper, text = CausalLM(model("llama"), "llama", engine="static"), tiny.prompt(30)
    wrapper.reserve(100)
    guess = Provenance(Source.DRAFT)
    for rows in (1, 3, 4, 5, 8, 7, 3):
        text = [*text, rows]
        wrapper.evaluate(text, chain(rows, [rows] * (rows - 1), guess))
    sizes = [size for size, *_ in seen]
    assert sizes == [32, 4, 4, 8, 8, 8, 4], "the first pass reads the text as well"
    assert len(set(seen)) == len(set(sizes)), "one place for each bucket"
    wrapper.reserve(2000)
    wrapper.evaluate([*text, 5], chain(5, [5, 5], guess))
    assert len(set(seen)) == len(set(sizes)) + 1


def test_rows_that_were_never_written_hold_zeros() -> None:
    """After growing, too: what memory happens to hold may be no number, and no mask hides that."""
    cache = TreeCache(1, zeroed=True)
    ones = torch.ones(1, 2, 3, 4)
    spoilt = [torch.full((1, 2, rows, 4), torch.nan) for rows in 4 * [GRAIN, 3 * GRAIN]]
    del spoilt  # so that the memory that comes next holds something
    cache.layers[0].update(ones, ones)
    for capacity in (GRAIN, 3 * GRAIN):
        cache.reserve(capacity)
        for held in (cache.layers[0].keys, cache.layers[0].values):
            assert held.shape[2] == cache.capacity and held.sum() == ones.sum()


@pytest.mark.parametrize("method", ["autoregressive", "speculative", "multi_candidate", "union"])
def test_texts_are_those_of_plain_decoding(method: str) -> None:
    target, draft = (make("llama", "sdpa", torch.float32) for make in (tiny.target, tiny.draft))
    models = tuple(CausalLM(one, "llama", engine="static") for one in (target, draft))
    text = tiny.prompt()
    steps = tiny.run(models, method, text, 40)  # type: ignore[arg-type]
    assert tiny.emitted(steps) == tiny.plain(target, text, 40)


def test_target_and_draft_are_computed_in_fixed_shapes_where_that_is_asked_for_or_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft", seed=1)
    pair = load_pair(
        target, draft, placement=Placement("cpu", "float32"), execution=Execution("static")
    )
    assert pair.draft is not None
    assert pair.environment.passes == pair.draft.engine == "static"
    monkeypatch.setattr(static, "replayed", lambda device: True)
    pair = load_pair(target, draft, placement=Placement("cpu", "float32"))
    assert pair.draft is not None
    assert pair.environment.passes == pair.draft.engine == "static", "a GPU replays them"
    other = save(tmp_path / "other", family="gpt2")
    with pytest.raises(UnsupportedModel, match="other has no passes in fixed shapes: they are for"):
        load_pair(other, placement=Placement("cpu", "float32"), execution=Execution("static"))
