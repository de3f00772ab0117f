"""The check whether the native pass is fast enough on this machine: a correct library may be slow,
depending on compiler, processor and threads."""

from __future__ import annotations

import logging
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from ouroboros_core.adaptive.profiler import in_turn
from ouroboros_core.loading.measured import measured_once
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.compact import Rows
from ouroboros_core.models.engines.native import pages
from ouroboros_core.models.engines.passes import Engine, decoder
from ouroboros_core.models.kv_cache import TreeCache

log = logging.getLogger(__name__)

FACTOR = 1.5
"""Multiple of the compact pass's seconds that is too slow; a smaller one may be chance."""

LAYERS = 2
"""Layers in a timed pass. All layers are similar, and more would need more memory."""

ROWS = (1, 8)
"""Row counts of timed passes."""

PAST = 100
"""Cached rows before a timed pass."""

ROUNDS, SECONDS = 8, 1.0
"""Most rounds and seconds of a measurement."""


def too_slow(model: CausalLM) -> bool:
    """Return whether a model's native pass is slower than the compact one by FACTOR, and log it;
    False for other engines."""
    if model.engine != "native":
        return False
    ratio = slowness(model)
    if ratio > FACTOR:
        warning = "%s: the native pass is not used: it takes %.1f times as long as the compact one"
        log.warning(warning, model.name, ratio)
    return ratio > FACTOR


def slowness(model: CausalLM) -> float:
    """Return the ratio of seconds of the native pass to the compact pass, the larger one of one row
    and of eight. It is measured when a model is first loaded on a machine."""
    measure = partial(_measured, model)
    return measured_once("speed", model, measure, LAYERS, ROWS, PAST, pages.kind())


@torch.inference_mode()
def _measured(model: CausalLM) -> float:
    engines = FirstLayers("native", model), FirstLayers("compact", model)
    passes = [partial(layers.seconds, rows) for rows in ROWS for layers in engines]
    # Take the minimum: other work on the machine only adds to a time.
    least = [*map(min, in_turn(passes, ROUNDS, SECONDS))]
    return max(native / compact for native, compact in zip(least[::2], least[1::2], strict=True))


class FirstLayers:
    """A model's first layers with one engine, after a cached text."""

    def __init__(self, engine: Engine, model: CausalLM) -> None:
        body: Any = model.model.base_model
        shared = {name: getattr(body, name) for name in ("config", "norm", "rotary_emb")}
        layers = body.layers[:LAYERS]
        self.engine = engine
        self._decoder = decoder(engine, SimpleNamespace(layers=layers, **shared))
        self._cache = TreeCache(len(layers))
        tokens = torch.arange(PAST + max(ROWS), device=model.device) % model.vocabulary
        self._embeddings: torch.Tensor = model.model.get_input_embeddings()(tokens)
        self._run(0, PAST)

    def _run(self, start: int, stop: int) -> None:
        positions = torch.arange(start, stop, device=self._embeddings.device)
        x, longest = self._embeddings[start:stop], len(self._embeddings)
        self._decoder.run(Rows(x, positions, longest), self._cache)

    def seconds(self, rows: int) -> float:
        """Return the seconds of a pass over `rows` rows."""
        self._cache.keep(PAST)
        begun = time.perf_counter()
        self._run(PAST, PAST + rows)
        return time.perf_counter() - begun
