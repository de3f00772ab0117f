"""A cache of measured plain runs."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.loading.pairs import Pair

BASELINE_SECONDS = 600.0
BASELINES_KEPT = 64


class Baselines:
    """Plain runs, kept for ten minutes at most, by what decides their tokens and their speed; the
    key is a hash."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Trace]] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def key(pair: Pair, task: Task, visitor: str = "") -> str:
        """Prompt, length, sampling, models, dtype, device and threads, and whose it is."""
        environment = pair.environment
        plain = task.plain()
        facts = (
            visitor,
            plain,
            pair.fingerprint,
            pair.target.name,
            pair.target.vocabulary,
            pair.target.model.num_parameters(),
        )
        return hashlib.sha256(
            repr((*facts, environment.dtype, environment.device, environment.threads)).encode()
        ).hexdigest()

    def get(self, key: str) -> Trace | None:
        with self._lock:
            self._forget()
            return self._kept[key][1] if key in self._kept else None

    def put(self, key: str, trace: Trace) -> None:
        with self._lock:
            self._kept[key] = (self._clock(), trace)
            self._kept.move_to_end(key)
            self._forget()

    def _forget(self) -> None:
        old = self._clock() - BASELINE_SECONDS
        while self._kept and (
            next(iter(self._kept.values()))[0] < old or len(self._kept) > BASELINES_KEPT
        ):
            self._kept.popitem(last=False)
