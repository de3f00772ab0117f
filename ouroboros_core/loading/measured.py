"""Measurements that are made once on a machine and stored in the cache folder."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ouroboros_core.loading.machine import processor
from ouroboros_core.locations import cache_folder, write_atomically
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.engines.native import build

log = logging.getLogger(__name__)


def file_of(kind: str, *conditions: object) -> Path:
    """Return the file of a measurement.

    kind        beginning of the file's name
    conditions  everything that the measurement depends on
    """
    key = hashlib.sha256(repr(conditions).encode()).hexdigest()[:16]
    return cache_folder() / "costs" / f"{kind}{key}.json"


def measured_once(
    kind: str, model: CausalLM, measure: Callable[[], float], *conditions: object
) -> float:
    """Return a number about a model's native pass, from `measure` or from an earlier measurement of
    the same model on this machine with the same number of threads and the same library.

    kind        beginning of the file's name
    conditions  everything else that the number depends on
    """
    named = processor(), torch.get_num_threads(), str(model.dtype), model.name
    file = file_of(f"{kind}-", *named, model.model.num_parameters(), build.name(), *conditions)
    with locked(file):  # processes that share a measurement must use the same numbers
        try:
            value = float(read(file)["value"])
            if not math.isfinite(value):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            value = measure()
            keep(file, {"value": value})
    return value


def read(file: Path) -> Any:
    """Return the parsed JSON, or None if the file is missing or invalid."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def keep(file: Path, data: dict[str, Any]) -> None:
    """Write JSON, whole or not at all, also where two processes write. A folder that cannot be
    written to costs a few seconds at each start, no more."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(data))
    except OSError as error:
        log.warning("what was measured once is not kept as %s: %s", file, error)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold an inter-process lock on a file's measurement, if the folder supports it."""
    from filelock import FileLock

    lock = FileLock(file.with_suffix(".lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        log.info("%s is measured without a lock: %s", file.name, error)
    try:
        yield
    finally:
        lock.release()
