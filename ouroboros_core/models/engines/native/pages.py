"""Memory for weights, in large pages if Linux has some.

A pass over a few rows waits for its weights, which it reads once. With pages of 4 kB the processor
also has to look up the address of every page, in a virtual machine twice; with pages of 2 MB it
hardly ever has to. Linux gives large pages to a program that requests them, unless they are
disabled (/sys/kernel/mm/transparent_hugepage/enabled).
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
    """Return the kind of pages for weights here. A measurement with another kind is repeated."""
    return "large pages" if ENABLED.exists() and not refused() else "ordinary pages"


def refused() -> bool:
    """Return whether Linux has large pages that are disabled."""
    try:
        return "[never]" in ENABLED.read_text(encoding="utf-8")
    except OSError:
        return False


def _mapped(size: int) -> tuple[mmap.mmap, int]:
    """Return memory with requested large pages, and the offset of `size` bytes in it. Raise OSError
    if memory is short."""
    padded = -(-size // LARGE) * LARGE
    # Not every kernel aligns its mappings.
    memory = mmap.mmap(-1, padded + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # of a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    first = torch.frombuffer(memory, dtype=torch.uint8, count=1)
    return memory, -first.data_ptr() % LARGE


class _Shared:
    """Chunks that small weights share. Only the weights keep a chunk's memory, so it is freed with
    the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: weakref.ref[mmap.mmap] | None = None
        self._used = self._end = 0

    def room(self, size: int) -> tuple[mmap.mmap, int]:
        """Return memory with `size` free bytes, and their offset."""
        with self._lock:
            memory = self._memory() if self._memory is not None else None
            if memory is None or self._used + size > self._end:
                memory, self._used = _mapped(CHUNK)
                self._memory, self._end = weakref.ref(memory), self._used + CHUNK
            offset = self._used
            self._used += -(-size // LINE) * LINE
        return memory, offset


_shared = _Shared()


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return an uninitialised tensor on the CPU."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory, offset = _shared.room(size) if size <= CHUNK // 2 else _mapped(size)
            return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(*shape)
    return torch.empty(*shape, dtype=dtype, device="cpu")
