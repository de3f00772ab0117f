"""What is measured once on a machine, and kept in the cache folder."""

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


def file_of(kind: str, *what: object) -> Path:
    """Where a measurement lies. kind: the name begins with it; what: all that it depends on."""
    key = hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    return cache_folder() / "costs" / f"{kind}{key}.json"


def kept(kind: str, model: CausalLM, measure: Callable[[], float], *more: object) -> float:
    """A number about a model's native pass: what `measure` says, or said before of the same model
    on this machine, with as many threads and the same compiled library.

    kind  the file's name begins with it
    more  what else the number depends on
    """
    named = processor(), torch.get_num_threads(), str(model.dtype), model.name
    file = file_of(f"{kind}-", *named, model.model.num_parameters(), build.name(), *more)
    with alone(file):  # processes that share a measurement must go by the same numbers
        try:
            value = float(read(file)["value"])
            if not math.isfinite(value):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            value = measure()
            keep(file, {"value": value})
    return value


def read(file: Path) -> Any:
    """What the JSON in a file says; None where there is no file, or no JSON in it."""
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
def alone(file: Path) -> Iterator[None]:
    """While it lasts, no other process measures what that file keeps; they measure at the same
    time only where the cache folder has no locks or cannot be written to."""
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
