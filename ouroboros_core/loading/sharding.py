"""A target that is too large for one device: spread over several by accelerate, layer by layer, or
split over the processes that torchrun has started, matrix by matrix (tensor parallelism).

Split, every process runs the same program on the same prompt, and computes its share of every
matrix. The sums over all processes are the same numbers in each, so that all choose the same tokens
and go through the same passes. What a clock decides is decided by the first process for all.
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
"""The device map that asks for a target split over processes."""

T = TypeVar("T")


def check_split(target: str | None, head: object, quantize: object) -> None:
    """Raise InvalidInput for what cannot be had beside a split target."""
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
    """The device of this process under torchrun, where each has a GPU of its own."""
    whole = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if whole else device


def split_plan() -> Any:
    """What tells transformers to split a model by its own plan over all processes."""
    from transformers.distributed import DistributedConfig

    atexit.register(_leave)
    return DistributedConfig(tp_plan="auto")


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def processes(model: Any) -> int:
    """Over how many processes a model is split; 1 for a whole one."""
    return int(getattr(model, "_tp_size", None) or 1)


def speaks(device_map: object) -> bool:
    """Whether this process prints and writes files: of those that share a target, the first."""
    return device_map != SPLIT or os.environ.get("RANK", "0") == "0"


def agreed(value: T) -> T:
    """What the first process gives, in all of them."""
    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def spread(
    source: dict[str, Any], kind: Any, dtype: torch.dtype, device: torch.device
) -> str | None:
    """The device map of a model that does not fit on a GPU: the others take layers, then the
    processor. None where it fits.

    source  arguments of from_pretrained that say where it is
    kind    the auto class that loads it
    """
    free = free_memory(device) if device.type == "cuda" else None
    if free is None:
        return None
    config = transformers.AutoConfig.from_pretrained(**source, trust_remote_code=False)
    with torch.device("meta"):
        model = kind.from_config(config, trust_remote_code=False)
    needed = model.num_parameters() * dtype.itemsize
    return "auto" if needed + SPARE > free else None
