"""Whether the native pass is worth it here: a library may be right and slow, as compiler,
processor and threads will have it."""

from __future__ import annotations

import logging
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from ouroboros_core.adaptive.profiler import in_turn
from ouroboros_core.loading.measured import kept
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native import pages
from ouroboros_core.models.engines.passes import Engine, decoder
from ouroboros_core.models.kv_cache import TreeCache

log = logging.getLogger(__name__)

FACTOR = 1.5
"""So many times the compact pass's seconds are too many; less may be chance."""

LAYERS = 2
"""Of the model, which both passes compute: its layers are alike, and a whole one would need the
memory of a second model."""

ROWS = (1, 8)
"""Of the passes that are timed."""

PAST = 100
"""Rows that are cached before them."""

ROUNDS, SECONDS = 8, 1.0
"""How often they are timed in turn, and how long at most."""


def too_slow(model: CausalLM) -> bool:
    """Whether a model's native pass is slower than the compact one by FACTOR, with a sentence in
    the log then; False where another pass computes."""
    if model.engine != "native":
        return False
    ratio = slowness(model)
    if ratio > FACTOR:
        said = "%s: the native pass is not used: it takes %.1f times as long as the compact one"
        log.warning(said, model.name, ratio)
    return ratio > FACTOR


def slowness(model: CausalLM) -> float:
    """Seconds of the native pass over those of the compact one: of one row or of eight, whichever
    is the larger. Measured when a model is first loaded on a machine."""
    return kept("speed", model, partial(_measured, model), LAYERS, ROWS, PAST, pages.kind())


@torch.inference_mode()
def _measured(model: CausalLM) -> float:
    both = FirstLayers("native", model), FirstLayers("compact", model)
    passes = [partial(layers.seconds, rows) for rows in ROWS for layers in both]
    # The least of each: other work on the machine only adds to a time.
    least = [*map(min, in_turn(passes, ROUNDS, SECONDS))]
    return max(mine / other for mine, other in zip(least[::2], least[1::2], strict=True))


class FirstLayers:
    """A model's first layers by one of its passes, behind a cached text."""

    def __init__(self, engine: Engine, model: CausalLM) -> None:
        body: Any = model.model.base_model
        parts = {name: getattr(body, name) for name in ("config", "norm", "rotary_emb")}
        layers = body.layers[:LAYERS]
        self.engine = engine
        self._decoder = decoder(engine, SimpleNamespace(layers=layers, **parts))
        self._cache = TreeCache(len(layers))
        tokens = torch.arange(PAST + max(ROWS), device=model.device) % model.vocabulary
        self._embeddings: torch.Tensor = model.model.get_input_embeddings()(tokens)
        self._run(0, PAST)

    def _run(self, start: int, stop: int) -> None:
        positions = torch.arange(start, stop, device=self._embeddings.device)
        x, longest = self._embeddings[start:stop], len(self._embeddings)
        self._decoder.run(Rows(x, positions, longest), self._cache)

    def seconds(self, rows: int) -> float:
        """Of a pass over so many rows."""
        self._cache.keep(PAST)
        begun = time.perf_counter()
        self._run(PAST, PAST + rows)
        return time.perf_counter() - begun
