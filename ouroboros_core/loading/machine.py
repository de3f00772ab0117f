"""The machine: choice of device and dtype, and their names."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Literal

import torch

from ouroboros_core.errors import InvalidInput

DType = Literal["auto", "bfloat16", "float16", "float32", "float64"]


def choose_device(device: str) -> torch.device:
    """Return the device of that name, or for 'auto' CUDA, else MPS, else the CPU; raises
    InvalidInput if the machine does not have it."""
    if device == "auto":
        device = "mps" if torch.backends.mps.is_available() else "cpu"
        if torch.cuda.is_available():
            device = "cuda"
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(
            f"device must be one this machine has, such as cpu, got {device} ({reason})"
        ) from None
    return chosen


def choose_dtype(dtype: DType, device: torch.device) -> torch.dtype:
    """Return the dtype of that name, or for 'auto' bfloat16 if the hardware computes in it, else
    float32."""
    if dtype != "auto":
        return {
            "bfloat16": torch.bfloat16,
            "float16": torch.float16,
            "float32": torch.float32,
            "float64": torch.float64,
        }[dtype]
    if device.type != "cpu":
        return torch.bfloat16
    return torch.bfloat16 if {"amx_bf16", "avx512_bf16"} & _cpu_facts()[1] else torch.float32


def available_threads(limits: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of useful threads: the processors that this process may use, up to its
    container's quota."""
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    for files in (
        ("cpu.max",),
        ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
    ):  # cgroup 2, cgroup 1
        try:
            quota, period = " ".join(
                (limits / file).read_text(encoding="utf-8").strip() for file in files
            ).split()
            if int(quota) > 0:
                return max(1, min(allowed, int(quota) // int(period)))
        except (OSError, ValueError):  # no such file, or 'max': no limit
            continue
    return allowed


def _cpu_facts() -> tuple[str, frozenset[str]]:
    """Return name and feature flags of the processor, as far as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine(), frozenset()
    facts = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    return facts.get("model name", platform.machine()), frozenset(facts.get("flags", "").split())


def processor() -> str:
    """Return the processor's name and its widest relevant instruction set."""
    name, flags = _cpu_facts()
    best = next((f for f in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if f in flags), "")
    return f"{name} ({best})" if best else name


def device_name(device: torch.device) -> str:
    """Return the GPU's name, or the kind of device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
