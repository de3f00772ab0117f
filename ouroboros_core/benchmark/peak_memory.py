"""Peak memory of some work: the accelerator's if there is one, otherwise this process's resident
set."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path


class MemoryPeak:
    """Usage: reset, work, read the peak."""

    def __init__(self, device: str) -> None:
        """device: a torch device type, such as cpu or cuda."""
        self._cuda = device == "cuda"

    def reset(self) -> None:
        """Reset the peak. Only Linux supports this for a process; elsewhere the peak covers the
        whole run."""
        if self._cuda:
            import torch

            for number in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(number)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")

    def megabytes(self) -> float:
        """The peak since the last reset, in MB (10**6 bytes)."""
        if self._cuda:
            import torch

            return (
                sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count()))
                / 1e6
            )
        with contextlib.suppress(OSError, StopIteration):
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            return (
                int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
                * 1024
                / 1e6
            )
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
