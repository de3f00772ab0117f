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

import torch

KIND = "large pages"
"""What is measured with other memory is measured anew."""

LARGE = 1 << 21
"""Bytes of a large page."""

CHUNK = 16 * LARGE
"""Bytes that small weights share."""

LINE = 64
"""Bytes of a line of the processor's caches, at which every weight begins."""


def _mapped(size: int) -> mmap.mmap:
    """Whole large pages, at least so many bytes."""
    rounded = -(-size // LARGE) * LARGE
    memory = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # of a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class _Shared:
    """Where small weights go. They alone hold a chunk, so that it is given back with the last of
    them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunk: weakref.ref[mmap.mmap] | None = None
        self._used = 0

    def room(self, size: int) -> tuple[mmap.mmap, int]:
        """The chunk where so many bytes are free, and where in it."""
        with self._lock:
            chunk = self._chunk() if self._chunk is not None else None
            if chunk is None or self._used + size > CHUNK:
                chunk, self._used = _mapped(CHUNK), 0
                self._chunk = weakref.ref(chunk)
            place = self._used
            self._used += -(-size // LINE) * LINE
        return chunk, place


_shared = _Shared()


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the CPU that nothing is written to yet."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if not size or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(*shape, dtype=dtype)
    memory, place = _shared.room(size) if size <= CHUNK // 2 else (_mapped(size), 0)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=place).view(*shape)
