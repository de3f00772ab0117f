"""A GPU that nobody has: a device whose tensors lie in this machine's memory, and which fails where
a GPU fails.

An operation on one of its tensors and a plain one is an error, and so is one on two dtypes that no
GPU mixes. Whatever makes the program wait for the device - a value, a list, a copy back, a shape
that depends on values - is counted. What is computed is computed by the processor, so that texts
can be compared. It renames a backend of torch for good, so it runs in a process of its own:
python -m tests.pretended ENGINE METHOD ... prints for each of the WAYS and each method its text,
its steps and its waits as JSON, and `python -m tests.pretended faults` what slips lead to.
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
"""What may move values between devices."""
WAITS = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}
SHAPED = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive"}
"""What a program waits for, because it returns a value or a shape that depends on values."""
INDEXED = {"aten::index", "aten::index_put_", "aten::index_put"}
"""What takes indices from elsewhere."""
SAME_DTYPE = {"aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear"}
SAME_DTYPE |= {"aten::scaled_dot_product_attention"}


WAYS = {
    "single": (torch.float32, Sampling()),
    "half": (torch.bfloat16, Sampling()),
    "matched": (torch.float32, Sampling(temperature=0.8, seed=3)),
    "drawn": (torch.float32, Sampling(temperature=0.8, seed=3, acceptance="rejection")),
}
"""The numbers of the models, and how tokens are chosen."""


class Remote(torch.Tensor):
    """A tensor on the pretended device; `held` is what it stands for."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Remote:
        made: Remote = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} outside of the pretended device")

    def tolist(self) -> Any:
        Device.waits["tolist"] += 1
        return self.held.tolist()


class Device(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, tensors of the device can be made and computed with."""

    waits: ClassVar[Counter[str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func._schema.name
        leaves = tree_leaves((args, kwargs))
        given = [one for one in leaves if isinstance(one, torch.Tensor)]
        remote = [one for one in given if isinstance(one, Remote)]
        wanted = next((one for one in leaves if isinstance(one, torch.device)), None)
        there = bool(remote) if wanted is None else wanted.type == NAME
        if name == "aten::copy_":
            there = isinstance(args[0], Remote)
        if not remote and not there:
            return func(*args, **kwargs)
        self._check(name, given, remote)
        if (remote and not there) or name in WAITS or name in SHAPED:
            self.waits[name.removeprefix("aten::")] += 1
        made = func(*tree_map(_real, args), **tree_map(_real, kwargs))
        known = {id(one.held): one for one in remote}

        def wrapped(one: Any) -> Any:
            if not there or not isinstance(one, torch.Tensor):
                return one
            return known[id(one)] if id(one) in known else Remote(one)

        return tree_map(wrapped, made)

    def _check(self, name: str, given: list[torch.Tensor], remote: list[Remote]) -> None:
        plain = [one for one in given if not isinstance(one, Remote) and one.dim()]
        if name in INDEXED:
            indices = given[1:]
            if any(one.dtype in (torch.bool, torch.uint8) for one in indices):
                self.waits["index by mask"] += 1
            plain = [one for one in plain if one.is_floating_point()]
        if remote and plain and name not in BACK:
            shapes = ", ".join(str(tuple(one.shape)) for one in plain)
            raise RuntimeError(f"{name}: tensors {shapes} lie on the processor, others on the GPU")
        dtypes = {one.dtype for one in given if one.is_floating_point()}
        if name in SAME_DTYPE and len(dtypes) > 1:
            raise RuntimeError(f"{name} mixes {', '.join(map(str, dtypes))}")


def _real(one: Any) -> Any:
    if isinstance(one, torch.device):
        return torch.device("cpu")
    return one.held if isinstance(one, Remote) else one


@contextmanager
def pretended() -> Iterator[Counter[str]]:
    """The device is there; gives what was waited for."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME)
    torch._C._set_only_lift_cpu_tensors(True)  # what torch.tensor() makes passes through the mode
    try:
        with Device():  # type: ignore[no-untyped-call]
            yield Device.waits
    finally:
        torch._C._set_only_lift_cpu_tensors(False)


def moved(module: Any) -> Any:
    """A copy of a module with its weights on the device; shared ones stay shared."""
    made = copy.deepcopy(module)
    known: dict[int, Remote] = {}
    for part in made.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                there = known.setdefault(id(weight), Remote(weight.detach()))
                part._parameters[name] = torch.nn.Parameter(there, requires_grad=False)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Remote(buffer)
    return made


def models(
    engine: Any, dtype: torch.dtype, move: Callable[[Any], Any]
) -> tuple[CausalLM, CausalLM]:
    """Target and draft; the draft cannot write the last token."""
    target, draft = (move(make("llama", "sdpa", dtype)) for make in (tiny.target, tiny.draft))
    writer = CausalLM(draft, "llama-draft", engine=engine, outputs=range(tiny.VOCABULARY - 1))
    writer.drafts = True
    return CausalLM(target, "llama", engine=engine), writer


def run(engine: str, way: str, method: str, move: Callable[[Any], Any], count: int = 12) -> Any:
    """The steps of a run, one of WAYS."""
    dtype, sampling = WAYS[way]

    def drafter(model: CausalLM, depths: tuple[int, ...] = (), kind: str = EAGLE) -> Any:
        made: Any = drafter_class(kind)
        return made(move(copy.deepcopy(tiny.head(model.name, depths, kind)).to(dtype)), model)

    tiny.drafter = drafter
    return tiny.run(models(engine, dtype, move), method, tiny.prompt(), count, sampling)


def faults() -> dict[str, str]:
    """What each of some slips leads to: the error, or what was waited for."""
    there: Any = {"device": NAME}
    slips: dict[str, Callable[[], Any]] = {
        "left behind": lambda: torch.zeros(3, **there) + torch.zeros(3),
        "index left behind": lambda: torch.zeros(3, **there).index_select(0, torch.tensor([1])),
        "dtypes": lambda: torch.nn.functional.linear(
            torch.zeros(1, 3, **there), torch.zeros(2, 3, dtype=torch.bfloat16, **there)
        ),
        "item": lambda: torch.zeros(3, **there).sum().item(),
        "int": lambda: int(torch.zeros(3, **there).argmax()),
        "if": lambda: bool(torch.zeros(3, **there).sum() > 1),
        "list": lambda: torch.zeros(3, **there).tolist(),
        "copy": lambda: torch.zeros(3, **there).cpu().numpy(),
        "nonzero": lambda: torch.zeros(3, **there).nonzero(),
        "mask": lambda: torch.zeros(3, **there)[torch.zeros(3, **there) > 1],
        "nothing": lambda: torch.zeros(3, **there)[torch.tensor([1])] + 1,
    }
    found = {}
    with torch.inference_mode(), pretended() as waits:
        for name, slip in slips.items():
            waits.clear()
            try:
                slip()
                found[name] = "waits" if waits else "runs on"
            except RuntimeError as error:
                found[name] = str(error)
    return found


def main(engine: str, ids: list[str]) -> None:
    print(json.dumps({way: {method: ran(engine, way, method) for method in ids} for way in WAYS}))


def ran(engine: str, way: str, method: str) -> dict[str, Any]:
    """A method on the processor and on the device."""
    here = run(engine, way, method, lambda one: one)
    with torch.inference_mode(), pretended() as waits:
        waits.clear()
        steps = run(engine, way, method, moved)
        return {
            "here": tiny.emitted(here),
            "there": tiny.emitted(steps),
            "sure here": _sure(here),
            "sure there": _sure(steps),
            "steps": len(steps),
            "drafts": sum(step.draft_passes for step in steps),
            "waits": dict(waits),
        }


def _sure(steps: Sequence[Step]) -> list[float]:
    """How sure drafts were of the tokens that were checked."""
    told = (origin.confidence for step in steps for origin in step.tree.provenance)
    return [one for one in told if one is not None]


if __name__ == "__main__":
    if sys.argv[1] == "faults":
        sys.exit(print(json.dumps(faults())))
    main(sys.argv[1], sys.argv[2:] or [*methods.available()])
