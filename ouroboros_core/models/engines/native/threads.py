"""The threads of the compiled code: torch's OpenMP threads."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from functools import cache

import torch

from ouroboros_core.models.engines.native import build


class Threads(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("parallel", "index", "count")),
        ("wanted", c_int64),
    ]


def current() -> Threads:
    """Return the same number of threads as torch computes with."""
    return _team(build.openmp(), torch.get_num_threads())


@cache
def _team(openmp: ctypes.CDLL | None, count: int) -> Threads:
    if openmp is None:
        return Threads(None, None, None, 1)
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    functions = [ctypes.cast(getattr(openmp, name), c_void_p) for name in names]
    return Threads(*functions, count)
