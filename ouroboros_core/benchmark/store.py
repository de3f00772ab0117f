"""What was measured, kept so that nothing is lost: one store a process, merged at the end.

What is kept - a benchmark's runs, a sweep's points - is said by the settings' `kind`; all else is
alike. A store is written at once or not at all, after every unit. It refuses to mix what was
measured under other settings or elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from ouroboros_core.benchmark.conditions import Conditions
from ouroboros_core.decoding.equality import Divergence
from ouroboros_core.decoding.trace import Seconds
from ouroboros_core.errors import InvalidInput

VERSION = 1
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Environment variables in which launchers give the number of processes."""
Unit = tuple[int | str, ...]
"""Identifies a unit of work, which is done as a whole; starts with repeat and question id."""


class Record(Protocol):
    """One measured run, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def unit(self) -> Unit:
        """The unit of work that it belongs to."""
        ...

    @property
    def key(self) -> Hashable:
        """Identifies the run; a run that was measured twice counts once."""
        ...


@dataclass(frozen=True)
class Measurement:
    """One run of one entrant on one turn of one question. `difference` is null if the text is
    that of the baseline; `explanation` says it in words."""

    method: str
    setting: str
    repeat: int
    question: int | str
    turn: int
    group: str
    tokens: int
    passes: int
    rows: int
    draft_passes: int
    seconds: Seconds
    peak_memory_mb: float
    compared: bool
    difference: Divergence | None = None
    explanation: str | None = None

    @property
    def unit(self) -> Unit:
        return self.repeat, self.question

    @property
    def key(self) -> Hashable:
        return self.method, self.setting, self.repeat, self.question, self.turn


R = TypeVar("R", bound=Record, default=Measurement)


@dataclass(frozen=True)
class Kind(Generic[R]):
    """What a store keeps, and the words for it.

    name     of the whole, such as benchmark
    unit     what a unit of work is called, such as question
    records  where the records stand in the JSON
    """

    name: str
    unit: str
    records: str
    record: type[R]


class Plan(Protocol[R]):
    """Settings, a dataclass: what decides the numbers, so that a resumed measurement must have the
    same."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> Kind[R]: ...


@dataclass(kw_only=True)
class Settings(Conditions):
    """What decides the numbers of a benchmark; a resumed one must have the same."""

    methods: list[str]
    peers: list[str]
    turns: bool

    @property
    def kind(self) -> Kind[Measurement]:
        return Kind("benchmark", "question", "runs", Measurement)


@dataclass
class Store(Generic[R]):
    """Finished units in memory and, if a path is given, on disk; `memories` are what the warm
    entrants have kept after the last unit, as JSON by label."""

    settings: Plan[R]
    path: Path | None = None
    units: list[Unit] = field(default_factory=list)
    measurements: list[R] = field(default_factory=list)
    memories: dict[str, str] = field(default_factory=dict)
    elsewhere: set[Unit] = field(default_factory=set)
    """Units that other processes have done."""
    complete: bool = False

    def adopt(self, other: Store[R]) -> None:
        """Add the units that only the other store has."""
        new = [unit for unit in other.units if unit not in self.units]
        self.units += new
        self.measurements += [run for run in other.measurements if run.unit in new]

    def add(
        self, unit: Unit, measured: Sequence[R], memories: dict[str, str] | None = None
    ) -> None:
        self.units.append(unit)
        self.measurements += measured
        self.memories = memories or {}
        self.save({})

    def save(self, report: dict[str, Any]) -> None:
        """Write the file atomically; `report` is added to the records."""
        if self.path is None:
            return
        scratch = self.path.with_name(self.path.name + ".writing")
        scratch.write_text(self.text(report))
        scratch.replace(self.path)

    def text(self, report: dict[str, Any]) -> str:
        """The JSON of all that is kept, a record a line."""
        state: dict[str, Any] = {
            "version": VERSION,
            "complete": self.complete,
            "settings": asdict(self.settings),
            **report,
        }
        if not self.complete:
            state |= {"units": self.units, "memories": self.memories}
        text = json.dumps(state, indent=1)
        written = (asdict(run) for run in self.measurements)
        runs = ",\n".join("  " + json.dumps(run, allow_nan=True) for run in written)
        return f'{text[:-2]},\n "{self.settings.kind.records}": [\n{runs}\n ]\n}}\n'

    @classmethod
    def open(cls, settings: Plan[R], path: Path | None, *, resume: bool) -> Store[R]:
        """A new store, or the one that was interrupted; raises InvalidInput rather than lose or mix
        results."""
        store, kind = cls(settings, path), settings.kind
        if path is None or not path.exists():
            return store
        try:
            state = json.loads(path.read_text())
            if state["version"] != VERSION:
                raise InvalidInput(
                    f"{path} has version {state['version']}, this program reads {VERSION}: name "
                    "another file"
                )
            records = state[kind.records]
            if not resume:
                if state["complete"]:
                    return store
                raise InvalidInput(
                    f"{path} holds an interrupted {kind.name} ({len(state['units'])} {kind.unit}s "
                    "done): add --resume to go on "
                    f"with it, or delete it to start over"
                )
            for name, value in asdict(settings).items():
                if state["settings"][name] != value:
                    was = state["settings"][name]
                    raise InvalidInput(
                        f"{path} was measured with {name} {was}, not {value}: resume with the "
                        "same, or name another file"
                    )
            store.measurements = [
                TypeAdapter(kind.record).validate_python(record) for record in records
            ]
            done = state.get("units") or dict.fromkeys(run.unit for run in store.measurements)
            store.units = [tuple(unit) for unit in done]
            # An earlier version wrote phrase pools alone.
            store.memories = state.get("memories", state.get("pools", {}))
            store.complete = state["complete"]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"{path} is not a {kind.name}'s JSON ({error}); name another file"
            ) from None
        return store


@dataclass(frozen=True)
class Share:
    """Which part of the work is this process's: every `count`-th question, from `rank` on (see
    accelerate launch)."""

    rank: int = 0
    count: int = 1
    device: str | None = None
    """The device that is this process's among several, such as cuda:1."""

    @property
    def main(self) -> bool:
        return self.rank == 0

    def open(self, settings: Plan[R], path: Path | None, *, resume: bool) -> Store[R]:
        """This process's store; the main one's is at `path`, the others' are beside it until all
        are merged."""
        if path is None:
            return Store(settings)
        parts = _parts(path)
        if parts and not resume:
            raise InvalidInput(
                f"{parts[0]} is left of an interrupted {settings.kind.name}: add --resume to go on "
                "with it, or delete it to "
                f"start over"
            )
        store = Store.open(settings, path if self.main else _part(path, self.rank), resume=resume)
        for other in (path, *parts):
            if other != store.path and other.exists():
                left = Store.open(settings, other, resume=True)
                if (
                    self.main and int(other.suffix.removeprefix(".part")) >= self.count
                ):  # its process is no longer there
                    store.adopt(left)
                else:
                    store.elsewhere |= set(left.units)
        self._wait()
        return store

    def _wait(self) -> None:
        """Waits until all processes have opened their store, so that a file of a fast process is
        not taken for one of an earlier measurement."""
        if self.count > 1:
            from accelerate import PartialState

            PartialState().wait_for_everyone()


def _part(path: Path, rank: int) -> Path:
    return path.with_name(f"{path.name}.part{rank}")


def _parts(path: Path) -> list[Path]:
    """The files of other processes, in order."""
    wanted = re.compile(re.escape(path.name) + r"\.part\d+")
    return sorted(other for other in path.parent.iterdir() if wanted.fullmatch(other.name))


def share() -> Share:
    """This process's share, as set up by `accelerate launch`, torchrun or mpirun."""
    if all(int(os.environ.get(name, "1")) == 1 for name in SIZES):
        return Share()
    import torch
    from accelerate import PartialState

    state = PartialState(
        cpu=not torch.cuda.is_available(), timeout=timedelta(days=1)
    )  # one may be done long before another
    return Share(state.process_index, state.num_processes, str(state.device))


def gather(store: Store[R], mine: Share) -> None:
    """Bring all processes' measurements into the main one's store; each run counts once."""
    everything = store.measurements
    if mine.count > 1:
        from accelerate import PartialState
        from accelerate.utils import gather_object

        everything = gather_object(everything)
        PartialState().destroy_process_group()
    if mine.main:
        store.measurements = list({run.key: run for run in everything}.values())


def remove_parts(path: Path | None, mine: Share) -> None:
    """Delete the other processes' files, whose content the main one has."""
    for part in _parts(path) if path is not None and mine.main else ():
        part.unlink()
