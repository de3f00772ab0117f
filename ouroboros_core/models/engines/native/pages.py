"""Memory for weights, in large pages where Linux has some.

A pass over a few rows waits for its weights, all of which it reads once. In pages of 4 kB the
processor also has to find out for every page where it lies, in a virtual machine twice; in pages of
2 MB it hardly ever has to. Linux gives large pages to a program that asks for them, unless it is
told never to (/sys/kernel/mm/transparent_hugepage/enabled).
"""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import torch

LARGE = 1 << 21
"""Bytes of a large page."""

CHUNK = 16 * LARGE
"""Bytes that small weights share."""

LINE = 64
"""Bytes of a line of the processor's caches, at which every weight begins."""

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Says whether Linux grants large pages: one of its words is in brackets."""


def kind() -> str:
    """Which pages weights lie in here. What was measured with others is measured anew."""
    return "large pages" if ENABLED.exists() and not refused() else "ordinary pages"


def refused() -> bool:
    """Whether Linux has large pages and is told never to grant them."""
    try:
        return "[never]" in ENABLED.read_text(encoding="utf-8")
    except OSError:
        return False


def _mapped(size: int) -> tuple[mmap.mmap, int]:
    """Memory for which large pages are asked, and where in it they begin; from there on it has so
    many bytes. Raises OSError where memory is short."""
    whole = -(-size // LARGE) * LARGE
    # Not every kernel aligns what it maps.
    memory = mmap.mmap(-1, whole + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # of a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    first = torch.frombuffer(memory, dtype=torch.uint8, count=1)
    return memory, -first.data_ptr() % LARGE


class _Shared:
    """Where small weights go. They alone hold a chunk's memory, so that it is given back with the
    last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: weakref.ref[mmap.mmap] | None = None
        self._used = self._end = 0

    def room(self, size: int) -> tuple[mmap.mmap, int]:
        """The memory where so many bytes are free, and where in it."""
        with self._lock:
            memory = self._memory() if self._memory is not None else None
            if memory is None or self._used + size > self._end:
                memory, self._used = _mapped(CHUNK)
                self._memory, self._end = weakref.ref(memory), self._used + CHUNK
            place = self._used
            self._used += -(-size // LINE) * LINE
        return memory, place


_shared = _Shared()


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the CPU that nothing is written to yet."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory, place = _shared.room(size) if size <= CHUNK // 2 else _mapped(size)
            return torch.frombuffer(memory, dtype=dtype, count=count, offset=place).view(*shape)
    return torch.empty(*shape, dtype=dtype, device="cpu")
