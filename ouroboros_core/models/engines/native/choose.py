"""Choices from rows of logits in the compiled code: argmax, top-k and log-probabilities."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_int64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ouroboros_core.models.engines.native import build, threads

Columns = npt.NDArray[np.int32]


class _Logits(ctypes.Structure):
    _fields_ = [
        ("numbers", c_void_p),
        ("stride", c_int64),
        ("columns", c_int64),
        ("rows", c_void_p),
        ("count", c_int64),
    ]


class LogitRows:
    """Chooses from logits [rows, columns]; see `logit_rows`."""

    def __init__(self, logits: torch.Tensor, library: Any) -> None:
        self._logits, self._library = logits, library
        self._half = c_int(logits.dtype == torch.bfloat16)

    def _view(self, rows: npt.NDArray[np.int64]) -> _Logits:
        """Return a view of some rows; the caller keeps `rows` alive."""
        stride, columns = self._logits.stride(0), self._logits.shape[1]
        return _Logits(self._logits.data_ptr(), stride, columns, rows.ctypes.data, len(rows))

    def argmax(self) -> Columns:
        """Return the column of the largest logit of every row, the first of equals, as in torch."""
        rows = np.arange(len(self._logits))
        chosen = np.empty(len(rows), np.int32)
        view = self._view(rows)
        self._library.ouroboros_argmax(
            byref(view), c_void_p(chosen.ctypes.data), byref(threads.current()), self._half
        )
        return chosen

    def top(self, k: int, block: int = 0) -> Columns:
        """Return the columns [rows, k] of the largest logits, the largest first and equals as in
        torch's `topk`. With `block` search in blocks of `block` columns, which divide a row."""
        return self._top(np.arange(len(self._logits)), k, block, None)

    def scored(self, rows: Sequence[int], k: int) -> tuple[Columns, npt.NDArray[np.float32]]:
        """Return the columns of some rows, and their log-probabilities [rows, k]."""
        shares = np.empty((len(rows), k), np.float32)
        return self._top(np.array(rows, np.int64), k, 0, shares), shares

    def _top(
        self,
        rows: npt.NDArray[np.int64],
        k: int,
        block: int,
        shares: npt.NDArray[np.float32] | None,
    ) -> Columns:
        chosen = np.empty((len(rows), k), np.int32)
        view = self._view(rows)
        self._library.ouroboros_top(
            byref(view),
            c_int64(k),
            c_int64(block),
            c_void_p(chosen.ctypes.data),
            c_void_p(None if shares is None else shares.ctypes.data),
            byref(threads.current()),
            self._half,
        )
        return chosen

    def log_probability(self, row: int, column: int) -> float:
        """Return the log-probability of a column."""
        logits = self._logits[row]
        total = self._library.ouroboros_log_sum_exp
        total.restype = c_float
        normaliser = total(c_void_p(logits.data_ptr()), c_int64(len(logits)), self._half)
        return float(logits[column]) - float(normaliser)


def logit_rows(logits: torch.Tensor) -> LogitRows | None:
    """Return the chooser for logits [rows, columns] on a CPU, in bfloat16 or float32; None if torch
    must choose."""
    readable = logits.dtype in (torch.bfloat16, torch.float32)
    if not readable or logits.device.type != "cpu" or logits.stride(1) != 1:
        return None
    library = build.library()
    return None if library is None else LogitRows(logits, library)
