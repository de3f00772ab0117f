"""Methods, passes and CUDA graphs on a real GPU; skipped where there is none.

Oracles: the text that the same models write on the processor, and the compact pass.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.models.bookkeeping import PREFILL_CHUNK
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.passes import Engine
from ouroboros_core.models.engines.static import BUCKETS, StaticDecoder
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder
from tests import simulated_gpu, tiny
from tests.ouroboros_core.models.engines.test_compact import model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

ROWS = (*BUCKETS, 3, 33, BUCKETS[-1] + 1)
"""Buckets, rows that are padded, and more rows than any bucket has."""
SINGLE = ("single", "matched", "drawn")


def moved(module: Any) -> Any:
    """A copy on the GPU: what the tests keep stays where it is."""
    return copy.deepcopy(module).to("cuda")


def branches(root: int) -> TokenTree:
    """More rows than the largest bucket has."""
    builder = TreeBuilder(root)
    for n in range(1, 25):
        builder.add_path([n, 7 * n % tiny.VOCABULARY, 5, 9], 0, Provenance(Source.DRAFT))
    return builder.build()


@pytest.fixture(autouse=True)
def _drafters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `simulated_gpu.run` puts into `tiny` does not outlive a test."""
    monkeypatch.setattr(tiny, "drafter", tiny.drafter)


@pytest.mark.parametrize("method", sorted(methods.available()))
@pytest.mark.parametrize("engine", ["compact", "static"])
def test_a_method_writes_there_what_it_writes_on_the_processor(method: str, engine: str) -> None:
    """Greedy, and sampled by both rules, in single precision."""
    for way in SINGLE:
        here = tiny.emitted(simulated_gpu.run("compact", way, method, lambda one: one, 24))
        there = tiny.emitted(simulated_gpu.run(engine, way, method, moved, 24))
        assert there == here, way


@pytest.mark.parametrize("method", sorted(methods.available()))
def test_a_method_runs_there_in_half_precision(method: str) -> None:
    """What it writes may fall the other way at a tie, so it is only as long as it has to be."""
    for engine in ("compact", "static"):
        assert len(tiny.emitted(simulated_gpu.run(engine, "half", method, moved, 24))) == 24


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_a_captured_pass_computes_what_the_compact_one_does(kind: str) -> None:
    """In every bucket, behind a context longer than a prefill chunk, and after a path was compacted
    in the cache."""
    made, text = moved(model(kind)), tiny.prompt(PREFILL_CHUNK + 90)
    engines: tuple[Engine, Engine] = ("static", "compact")
    wrappers = [CausalLM(made, kind, engine=engine) for engine in engines]
    for context in (text, [*text, 4, 7, 3], [*text, 4, 7, 3]):
        tree = branches(context[-1])
        for rows in ROWS:
            found = [one.evaluate(context, tree.first(rows)) for one in wrappers]
            for node in range(rows):
                mine, theirs = (one.logits(node) for one in found)
                assert np.allclose(mine, theirs, rtol=1e-3, atol=1e-3), (len(context), rows, node)


def test_a_bucket_is_captured_once_and_again_where_the_cache_has_moved() -> None:
    wrapper = CausalLM(moved(model("llama")), "llama", engine="static")
    decoder = wrapper.forward_pass.decoder
    assert isinstance(decoder, StaticDecoder)
    text = tiny.prompt(30)
    wrapper.reserve(100)
    wrapper.evaluate(text, branches(text[-1]).first(1))  # which reads the text as well
    graphs = []
    for _ in range(2):
        for rows in (1, 3, 4, 8, 7):
            text = [*text, rows]
            wrapper.evaluate(text, branches(text[-1]).first(rows))
        graphs.append(dict(decoder._graphs))
    assert graphs[0] == graphs[1]
    wrapper.reserve(2000)
    wrapper.evaluate([*text, 5], branches(5).first(3))
    assert not set(graphs[1].values()) & set(decoder._graphs.values())


def test_attention_plans_nothing_anew_for_every_number_of_keys() -> None:
    """cuDNN's does; once a model is there it is no longer asked."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    CausalLM(moved(model("llama")), "llama")
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
