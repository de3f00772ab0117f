"""Machines and models to price a run with: assets/machines.json, every number with its source."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import assets
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if.estimate import (
    Machine,
    ModelSize,
    Priced,
    Roofline,
    by_head,
    price,
    sized,
    skipping,
    too_large,
    work_of,
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Number(_Strict):
    """A number and the id of its source."""

    value: float
    source: str = Field(alias="from")


class MachineSheet(_Strict):
    """A machine; missing numbers have the defaults of `Machine`."""

    name: str
    bandwidth: Number
    flops: Number
    memory: Number | None = None
    bandwidth_share: Number | None = None
    flops_share: Number | None = None
    layer_seconds: Number | None = None
    pass_seconds: Number | None = None

    @property
    def numbers(self) -> dict[str, Number]:
        return {name: value for name, value in self if isinstance(value, Number)}

    @property
    def machine(self) -> Machine:
        return Machine(self.name, **{name: number.value for name, number in self.numbers.items()})


class ModelSheet(_Strict):
    """A transformer with gated feed-forward layers, by the numbers of its configuration.

    source  of the numbers: a document and its address
    draft   id of the model that usually drafts for it
    """

    name: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool = False
    bytes_per_parameter: float = 2.0
    draft: str | None = None
    source: tuple[str, str]

    @property
    def body(self) -> int:
        """Return the parameters of all layers: attention, and three matrices of the feed-forward
        part. Norms and biases, less than a thousandth, are left out."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def total(self) -> int:
        """Return the parameters as the model's card counts them, with both embeddings."""
        return self.body + (1 if self.tied else 2) * self.vocabulary * self.hidden

    @property
    def size(self) -> ModelSize:
        output, cached = self.vocabulary * self.hidden, (self.kv_heads, self.head_size)
        sizes = (self.body + output, self.layers, *cached, output, self.bytes_per_parameter)
        return ModelSize(self.name, *sizes)


class Sheets(_Strict):
    """All machines and models by id; sources: (document, address) by id."""

    sources: dict[str, tuple[str, str]]
    machines: dict[str, MachineSheet]
    models: dict[str, ModelSheet]

    @model_validator(mode="after")
    def _all_named(self) -> Self:
        used = {number.source for m in self.machines.values() for number in m.numbers.values()}
        drafts = {model.draft for model in self.models.values() if model.draft}
        for kind, unknown in (
            ("source", used - set(self.sources)),
            ("draft", drafts - set(self.models)),
        ):
            if unknown:
                raise ValueError(f"no such {kind}: {', '.join(sorted(unknown))}")
        return self


@cache
def sheets() -> Sheets:
    return Sheets.model_validate_json((assets() / "machines.json").read_bytes())


def machine(name: str) -> Machine:
    """Return a machine by its id; raise InvalidInput for an unknown id."""
    _check_id(name, sheets().machines, "machine")
    return sheets().machines[name].machine


def model(name: str) -> ModelSize:
    """Return a model by its id; raise InvalidInput for an unknown id."""
    _check_id(name, sheets().models, "model")
    return sheets().models[name].size


def _check_id(name: str, ids: Collection[str], kind: str) -> None:
    if name not in ids:
        raise InvalidInput(f"there is no {kind} {name[:40]!r}; there are {', '.join(ids)}")


Edited = TypeVar("Edited", Machine, ModelSize)


def edited(size: Edited, numbers: Mapping[str, Any]) -> Edited:
    """Return it with some numbers replaced; raises InvalidInput for a wrong one."""
    kind = type(size)
    try:
        return TypeAdapter(kind).validate_python({**vars(size), **numbers})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "this"
        raise InvalidInput(
            f"{where} of {size.name}: {first['msg']}, got {str(first['input'])[:40]}"
        ) from None


SIZES = {
    "smollm2-135m": "smollm2-135m",
    "qwen2.5-coder-1.5b": "qwen2.5-1.5b",
    "qwen2.5-coder-0.5b": "qwen2.5-0.5b",
}
"""Ids of models by beginnings of names: models with that beginning have the model's shape."""


def known_as(name: str | None) -> str | None:
    """Return the id of the model that a trace names, or None if its shape is unknown."""
    last = (name or "").rsplit("/", 1)[-1].lower()
    for start, model_id in (
        *SIZES.items(),
        *((model_id, model_id) for model_id in sheets().models),
    ):
        if last.startswith(start):
            return model_id
    return None


def own(trace: Trace) -> tuple[str | None, str | None]:
    """Return the ids of a run's target and draft, None for an unknown shape."""
    return known_as(trace.target), known_as(trace.draft)


def kept_share(trace: Trace) -> float:
    """Return the share of its layers that a target drafts with; a half if unknown."""
    skips = re.search(r"without (\d+) attentions? and (\d+) MLPs?", trace.draft or "")
    name = known_as(trace.target)
    if skips is None or name is None:
        return 0.5
    sheet = sheets().models[name]
    attention = 2 * sheet.hidden * sheet.head_size * (sheet.heads + sheet.kv_heads)
    forward = 3 * sheet.hidden * sheet.intermediate
    skipped = int(skips[1]) * attention + int(skips[2]) * forward
    return max(0.1, 1 - skipped / sheet.body)


OWN = "own"
"""In place of a model's id: the model of the run."""


@dataclass(frozen=True)
class Quoted:
    """A run on a machine with models: modelled seconds, and sentences about them.

    draft  the drafter's size; None for a run without draft passes
    """

    trace: Trace
    machine: Machine
    target: ModelSize
    draft: ModelSize | None
    priced: Priced

    @property
    def sentence(self) -> str:
        priced, draft = self.priced, ""
        if self.draft is not None:
            draft = f" and {self.draft.name}"
        texts = "this run" if priced.batch == 1 else f"a batch of {priced.batch} such texts"
        return (
            f"Modelled: on {self.machine.name} with {self.target.name}{draft} {texts} would take "
            f"{seconds(priced.seconds)}, plain decoding {seconds(priced.plain_seconds)}: "
            f"{priced.speedup:.2f} times as fast, at the acceptance of the recorded pair."
        )

    @property
    def parts(self) -> dict[str, tuple[float, float]]:
        """Return the seconds of the run and of plain decoding, by part."""
        run, plain = self.priced.steps, self.priced.plain
        return {
            "prefill": (self.priced.prefill, self.priced.plain_prefill),
            "target": (sum(s.target for s in run), sum(s.target for s in plain)),
            "draft": (sum(s.draft for s in run), 0.0),
            "host": (sum(s.host for s in run), 0.0),
            "all": (self.priced.seconds, self.priced.plain_seconds),
        }

    @property
    def _acceptance(self) -> str:
        pair = " with ".join(filter(None, (self.trace.target, self.trace.draft)))
        return f"The acceptance of the recorded pair is assumed, not measured: {pair}."

    def at(self, batch: int) -> Quoted:
        return quote_sizes(self.trace, self.machine, self.target, self.draft, batch)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences on the limits of the model that apply to this run."""
        sentences = (
            self._acceptance,
            sized(self.trace),
            too_large(self.machine, self.target, self.draft),
        )
        return tuple(filter(None, sentences))


def seconds(value: float) -> str:
    """Return a time as people read it: '12 ms', '3.4 s'."""
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def size_of(name: str, run_model: str | None) -> ModelSize:
    """Return a model by its id or the run's; raises InvalidInput for an unknown shape."""
    if name != OWN:
        return model(name)
    if run_model is None:
        raise InvalidInput("the shape of this run's own models is not known: choose a model")
    return model(run_model)


def quote(
    trace: Trace, machine: Machine, target: str, draft: str | None = None, batch: int = 1
) -> Quoted:
    """Return a run on a machine with models by their ids; the default draft is the one that usually
    drafts for the target. Raise InvalidInput for an unknown id, for a batch beyond 64, and for a
    run with draft passes without a draft."""
    return quote_sizes(trace, machine, *sizes(trace, target, draft), batch)


def sizes(
    trace: Trace, target: str, draft: str | None = None, changed: Mapping[str, Any] | None = None
) -> tuple[ModelSize, ModelSize | None]:
    """Return the sizes of the target, with some numbers `changed`, and of the drafter.

    target, draft: ids, or OWN for the models of the run. The drafter is a head of that target or a
    share of its layers, if the run's method uses one; otherwise the draft, or the model that
    usually drafts for the target. It is None for a run without draft passes.
    """
    run_target, run_draft = own(trace)
    large = edited(size_of(target, run_target), changed or {})
    chosen = draft or (OWN if target == OWN and run_draft else None)
    sheet = sheets().models.get(run_target or "" if target == OWN else target)
    chosen = chosen or (sheet.draft if sheet else None)
    small = None if chosen in (None, OWN) else model(chosen)
    if not drafting(trace):
        return large, None
    if by_head(trace):
        return large, large.head
    if skipping(trace):
        return large, large.part(kept_share(trace))
    return large, size_of(OWN, run_draft) if chosen == OWN else small


def drafting(trace: Trace) -> bool:
    return any(step.draft_passes for step in work_of(trace))


def quote_sizes(
    trace: Trace, machine: Machine, target: ModelSize, draft: ModelSize | None, batch: int
) -> Quoted:
    """Return a run on a machine with the sizes of its target and drafter."""
    cost = Roofline(machine, draft) if draft else None
    priced = price(trace, Roofline(machine, target), cost, batch, machine.host)
    return Quoted(trace, machine, target, draft, priced)
