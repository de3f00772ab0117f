"""A target that is too large for one device: spread layer by layer over several devices by
accelerate, or split matrix by matrix over the processes of torchrun (tensor parallelism).

All processes of a split target run the same program on the same prompt, and each computes its share
of every matrix. The sums over the processes are the same numbers in each process. So all processes
choose the same tokens and make the same passes. For decisions by time the first process decides.
"""

from __future__ import annotations

import atexit
import os
from typing import Any, TypeVar

import torch
import transformers

from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.capacity import SPARE, free_memory

SPLIT = "tp"
"""The device map for a target that is split over processes."""

T = TypeVar("T")


def check_split(target: str | None, head: object, quantize: object) -> None:
    """Raise InvalidInput for arguments that a split target does not allow."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size < 2:
        raise InvalidInput(
            f"device_map {SPLIT} needs at least 2 processes, got {size}: start them by torchrun "
            "--nproc-per-node 2 -m ouroboros_core generate ..."
        )
    if target is None:
        raise InvalidInput(
            f"device_map {SPLIT} is for a large target, the embedded one is small: name one with "
            "--target"
        )
    if head not in (None, "none"):
        raise InvalidInput(
            "a head reads whole matrices of its target, and here they are split over processes: "
            f"leave --head out, or --device-map {SPLIT}"
        )
    if quantize is not None or target.endswith(".gguf"):
        raise InvalidInput(
            f"device_map {SPLIT} splits weights in safetensors, not quantised: name such a target, "
            "and leave --quantize out"
        )


def local_device(device: str) -> str:
    """Return the device of this process under torchrun, where each process has one GPU."""
    on_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if on_gpu else device


def split_plan() -> Any:
    """Return the configuration for transformers that splits a model by the model's plan."""
    from transformers.distributed import DistributedConfig

    atexit.register(_leave)
    return DistributedConfig(tp_plan="auto")


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def processes(model: Any) -> int:
    """Return the number of processes over which a model is split; 1 for an unsplit model."""
    return int(getattr(model, "_tp_size", None) or 1)


def speaks(device_map: object) -> bool:
    """Return whether this process prints and writes files: the first of a split target does."""
    return device_map != SPLIT or os.environ.get("RANK", "0") == "0"


def agreed(value: T) -> T:
    """Return the first process's value in all processes."""
    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def spread(
    source: dict[str, Any], kind: Any, dtype: torch.dtype, device: torch.device
) -> str | None:
    """Return the device map of a model that does not fit on a GPU, or None if it fits. The other
    GPUs take layers, then the processor.

    source  arguments of from_pretrained that locate the model
    kind    auto class that loads it
    """
    free = free_memory(device) if device.type == "cuda" else None
    if free is None:
        return None
    config = transformers.AutoConfig.from_pretrained(**source, trust_remote_code=False)
    with torch.device("meta"):
        model = kind.from_config(config, trust_remote_code=False)
    needed = model.num_parameters() * dtype.itemsize
    return "auto" if needed + SPARE > free else None
