"""A simulated GPU: a torch device that keeps its tensors in main memory and fails as a GPU fails.

An operation that mixes its tensors with plain ones raises an error, as does one that mixes dtypes
that no GPU mixes. Everything that makes the program wait for the device is counted: a value, a
list, a copy to the processor, a shape that depends on values. The processor computes the results,
so that texts can be compared. The device renames a torch backend for the rest of the process.
Therefore it runs in a separate one: `python -m tests.simulated_gpu ENGINE METHOD ...` prints text,
steps and waits of each method under each of the SETUPS as JSON, and
`python -m tests.simulated_gpu faults` prints the result of each deliberate mistake.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ouroboros_core import methods
from ouroboros_core.loading.heads import drafter_class
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads.recipes import EAGLE
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Step
from tests import tiny

NAME = "gpu"
BACK = {"aten::to", "aten::_to_copy", "aten::cpu", "aten::copy_"}
"""Operations that may move values between devices."""
WAITS = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}
SHAPED = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive"}
"""Operations that a program waits for: their result, or its shape, depends on values."""
INDEXED = {"aten::index", "aten::index_put_", "aten::index_put"}
"""Operations that accept indices on another device."""
SAME_DTYPE = {"aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear"}
SAME_DTYPE |= {"aten::scaled_dot_product_attention"}


SETUPS = {
    "single": (torch.float32, Sampling()),
    "half": (torch.bfloat16, Sampling()),
    "matched": (torch.float32, Sampling(temperature=0.8, seed=3)),
    "drawn": (torch.float32, Sampling(temperature=0.8, seed=3, acceptance="rejection")),
}
"""Setup -> dtype of the models, and sampling options."""


class Remote(torch.Tensor):
    """A tensor on the simulated device; `local` is the processor's tensor behind it."""

    local: torch.Tensor

    @staticmethod
    def __new__(cls, local: torch.Tensor) -> Remote:
        remote: Remote = torch.Tensor._make_wrapper_subclass(
            cls,
            local.shape,
            strides=local.stride(),
            storage_offset=local.storage_offset(),
            dtype=local.dtype,
            device=torch.device(NAME, 0),
        )
        remote.local = local
        return remote

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} outside of the simulated device")

    def tolist(self) -> Any:
        Device.waits["tolist"] += 1
        return self.local.tolist()


class Device(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which tensors of the device can be created and used."""

    waits: ClassVar[Counter[str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func._schema.name
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        remote = [tensor for tensor in tensors if isinstance(tensor, Remote)]
        device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
        on_device = bool(remote) if device is None else device.type == NAME
        if name == "aten::copy_":
            on_device = isinstance(args[0], Remote)
        if not remote and not on_device:
            return func(*args, **kwargs)
        self._check(name, tensors, remote)
        if (remote and not on_device) or name in WAITS or name in SHAPED:
            self.waits[name.removeprefix("aten::")] += 1
        results = func(*tree_map(_local, args), **tree_map(_local, kwargs))
        wrappers = {id(tensor.local): tensor for tensor in remote}

        def wrapped(value: Any) -> Any:
            if not on_device or not isinstance(value, torch.Tensor):
                return value
            return wrappers[id(value)] if id(value) in wrappers else Remote(value)

        return tree_map(wrapped, results)

    def _check(self, name: str, tensors: list[torch.Tensor], remote: list[Remote]) -> None:
        plain = [tensor for tensor in tensors if not isinstance(tensor, Remote) and tensor.dim()]
        if name in INDEXED:
            indices = tensors[1:]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                self.waits["index by mask"] += 1
            plain = [tensor for tensor in plain if tensor.is_floating_point()]
        if remote and plain and name not in BACK:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in plain)
            raise RuntimeError(f"{name}: tensors {shapes} are on the processor, others on the GPU")
        dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        if name in SAME_DTYPE and len(dtypes) > 1:
            raise RuntimeError(f"{name} mixes {', '.join(map(str, dtypes))}")


def _local(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.local if isinstance(value, Remote) else value


@contextmanager
def simulated() -> Iterator[Counter[str]]:
    """Provide the device and yield the count of waits by operation."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME)
    torch._C._set_only_lift_cpu_tensors(True)  # so that torch.tensor() goes through the mode
    try:
        with Device():  # type: ignore[no-untyped-call]
            yield Device.waits
    finally:
        torch._C._set_only_lift_cpu_tensors(False)


def moved(module: Any) -> Any:
    """Return a copy of a module with its weights on the device; shared weights stay shared."""
    moved_module = copy.deepcopy(module)
    remote_weights: dict[int, Remote] = {}
    for submodule in moved_module.modules():
        for name, weight in submodule._parameters.items():
            if weight is not None:
                remote = remote_weights.setdefault(id(weight), Remote(weight.detach()))
                submodule._parameters[name] = torch.nn.Parameter(remote, requires_grad=False)
        for name, buffer in submodule._buffers.items():
            if buffer is not None:
                submodule._buffers[name] = Remote(buffer)
    return moved_module


def models(
    engine: Any, dtype: torch.dtype, move: Callable[[Any], Any]
) -> tuple[CausalLM, CausalLM]:
    """Return target and draft; the draft cannot write the last token of the vocabulary."""
    target, draft = (move(make("llama", "sdpa", dtype)) for make in (tiny.target, tiny.draft))
    writer = CausalLM(draft, "llama-draft", engine=engine, outputs=range(tiny.VOCABULARY - 1))
    writer.drafts = True
    return CausalLM(target, "llama", engine=engine), writer


local_mtp_layers = tiny.mtp_layers


def run(engine: str, setup: str, method: str, move: Callable[[Any], Any], count: int = 12) -> Any:
    """Return the steps of a run under one of the SETUPS."""
    dtype, sampling = SETUPS[setup]

    def drafter(model: CausalLM, kind: str = EAGLE) -> Any:
        head = copy.deepcopy(tiny.head(model.name, kind)).to(dtype)
        create: Any = drafter_class(kind)
        return create(move(head), model)

    def mtp_layers(model: Any) -> Any:
        return move(local_mtp_layers(tiny.target("llama", "sdpa", dtype)))

    tiny.drafter = drafter
    tiny.mtp_layers = mtp_layers  # type: ignore[assignment]
    return tiny.run(models(engine, dtype, move), method, tiny.prompt(), count, sampling)


def faults() -> dict[str, str]:
    """Return the result of each deliberate mistake: its error, "waits" or "runs on"."""
    remote: Any = {"device": NAME}
    mistakes: dict[str, Callable[[], Any]] = {
        "left behind": lambda: torch.zeros(3, **remote) + torch.zeros(3),
        "index left behind": lambda: torch.zeros(3, **remote).index_select(0, torch.tensor([1])),
        "dtypes": lambda: torch.nn.functional.linear(
            torch.zeros(1, 3, **remote), torch.zeros(2, 3, dtype=torch.bfloat16, **remote)
        ),
        "item": lambda: torch.zeros(3, **remote).sum().item(),
        "int": lambda: int(torch.zeros(3, **remote).argmax()),
        "if": lambda: bool(torch.zeros(3, **remote).sum() > 1),
        "list": lambda: torch.zeros(3, **remote).tolist(),
        "copy": lambda: torch.zeros(3, **remote).cpu().numpy(),
        "nonzero": lambda: torch.zeros(3, **remote).nonzero(),
        "mask": lambda: torch.zeros(3, **remote)[torch.zeros(3, **remote) > 1],
        "nothing": lambda: torch.zeros(3, **remote)[torch.tensor([1])] + 1,
    }
    results = {}
    with torch.inference_mode(), simulated() as waits:
        for name, mistake in mistakes.items():
            waits.clear()
            try:
                mistake()
                results[name] = "waits" if waits else "runs on"
            except RuntimeError as error:
                results[name] = str(error)
    return results


def main(engine: str, ids: list[str]) -> None:
    runs = {name: {method: both_runs(engine, name, method) for method in ids} for name in SETUPS}
    print(json.dumps(runs))


def both_runs(engine: str, setup: str, method: str) -> dict[str, Any]:
    """Return a method's runs on the processor and on the device."""
    local_steps = run(engine, setup, method, lambda module: module)
    with torch.inference_mode(), simulated() as waits:
        waits.clear()
        steps = run(engine, setup, method, moved)
        return {
            "text": tiny.emitted(local_steps),
            "device text": tiny.emitted(steps),
            "confidences": _confidences(local_steps),
            "device confidences": _confidences(steps),
            "steps": len(steps),
            "drafts": sum(step.draft_passes for step in steps),
            "waits": dict(waits),
        }


def _confidences(steps: Sequence[Step]) -> list[float]:
    """Return the draft's probabilities of the checked tokens."""
    origins = (origin for step in steps for origin in step.tree.provenance)
    return [origin.confidence for origin in origins if origin.confidence is not None]


if __name__ == "__main__":
    if sys.argv[1] == "faults":
        sys.exit(print(json.dumps(faults())))
    main(sys.argv[1], sys.argv[2:] or [*methods.available()])
