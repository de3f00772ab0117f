"""Numbers about a model's native pass that are measured once on a machine, and kept in the cache
folder."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import torch

from ouroboros_core.adaptive.profiler import alone, write_whole
from ouroboros_core.loading.machine import processor
from ouroboros_core.locations import cache_folder
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.native import build

log = logging.getLogger(__name__)


def kept(kind: str, model: CausalLM, measure: Callable[[], float], *more: object) -> float:
    """What `measure` says, or said before of the same model on this machine, with as many threads
    and the same compiled library.

    kind  the file's name begins with it
    more  what else the number depends on
    """
    file = _file_of(kind, model, more)
    with alone(file):  # processes that share a measurement must go by the same numbers
        value = _known(file)
        if value is None:
            value = measure()
            _keep(file, value)
    return value


def _file_of(kind: str, model: CausalLM, more: tuple[object, ...]) -> Path:
    named = processor(), torch.get_num_threads(), str(model.dtype), model.name
    what = (*named, model.model.num_parameters(), build.name(), *more)
    key = hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    return cache_folder() / "costs" / f"{kind}-{key}.json"


def _known(file: Path) -> float | None:
    try:
        return float(json.loads(file.read_text())["value"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(file: Path, value: float) -> None:
    try:
        write_whole(file, {"value": value})
    except OSError as error:
        log.warning("what was measured once is not kept as %s: %s", file, error)
