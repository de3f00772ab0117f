"""What a benchmark has measured, kept so that nothing is lost: one store a process, merged at the end.

A store is written at once or not at all, after every unit. It refuses to mix what was measured under other settings or elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ouroboros_core.decoding.equality import Divergence
from ouroboros_core.decoding.trace import Seconds
from ouroboros_core.errors import InvalidInput

VERSION = 1
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Where launchers say how many processes there are."""
Unit = tuple[int, int | str]
"""Repeat and question id."""


@dataclass(frozen=True)
class Measurement:
    """One run of one entrant on one turn of one question. `difference` is null where the text is that of the baseline;
    `explanation` says it in words."""

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


@dataclass
class Settings:
    """What decides the numbers of a benchmark; a resumed one must have the same."""

    methods: list[str]
    peers: list[str]
    questions: int
    prompts: str
    max_new_tokens: int
    sampling: dict[str, Any]
    turns: bool
    repeats: int
    target: str
    draft: str | None
    environment: dict[str, Any]


@dataclass
class Store:
    """Finished units in memory and, if there is a path, on disk; `pools` are those of warm entrants after the last unit."""

    settings: Settings
    path: Path | None = None
    units: list[Unit] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    pools: dict[str, str] = field(default_factory=dict)
    elsewhere: set[Unit] = field(default_factory=set)
    """Units that other processes have done."""
    complete: bool = False

    def adopt(self, other: Store) -> None:
        """Take over what another store has and this one has not."""
        new = [unit for unit in other.units if unit not in self.units]
        self.units += new
        self.measurements += [run for run in other.measurements if (run.repeat, run.question) in new]

    def add(self, unit: Unit, measured: Sequence[Measurement], pools: dict[str, str]) -> None:
        self.units.append(unit)
        self.measurements += measured
        self.pools = pools
        self.save({})

    def save(self, report: dict[str, Any]) -> None:
        """Write everything at once or nothing; `report` is what a finished benchmark has besides its runs."""
        if self.path is None:
            return
        state: dict[str, Any] = {"version": VERSION, "complete": self.complete, "settings": asdict(self.settings), **report}
        if not self.complete:
            state |= {"units": self.units, "pools": self.pools}
        text = json.dumps(state, indent=1)
        runs = ",\n".join("  " + json.dumps(run, allow_nan=True) for run in map(asdict, self.measurements))
        scratch = self.path.with_name(self.path.name + ".writing")
        scratch.write_text(f'{text[:-2]},\n "runs": [\n{runs}\n ]\n}}\n')
        scratch.replace(self.path)

    @classmethod
    def open(cls, settings: Settings, path: Path | None, *, resume: bool) -> Store:
        """A new store, or the one an interrupted benchmark left; raises InvalidInput rather than lose or mix results."""
        store = cls(settings, path)
        if path is None or not path.exists():
            return store
        try:
            state = json.loads(path.read_text())
            if state["version"] != VERSION:
                raise InvalidInput(f"{path} has version {state['version']}, this program reads {VERSION}: name another file")
            if not resume:
                if state["complete"]:
                    return store
                raise InvalidInput(
                    f"{path} holds an interrupted benchmark ({len(state['units'])} questions done): add --resume to go on with "
                    f"it, or delete it to begin anew"
                )
            for name, value in asdict(settings).items():
                if state["settings"][name] != value:
                    was = state["settings"][name]
                    raise InvalidInput(
                        f"{path} was measured with {name} {was}, not {value}: resume with the same, or name another file"
                    )
            store.measurements = TypeAdapter(list[Measurement]).validate_python(state["runs"])
            done = state.get("units") or dict.fromkeys((run.repeat, run.question) for run in store.measurements)
            store.units = [(int(repeat), question) for repeat, question in done]
            store.pools, store.complete = state.get("pools", {}), state["complete"]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{path} is not a benchmark's JSON ({error}); name another file") from None
        return store


@dataclass(frozen=True)
class Share:
    """Which part of the work is this process's: every `count`-th question, from `rank` on (see accelerate launch)."""

    rank: int = 0
    count: int = 1
    device: str | None = None
    """The device that is this process's among several, such as cuda:1."""

    @property
    def main(self) -> bool:
        return self.rank == 0

    def open(self, settings: Settings, path: Path | None, *, resume: bool) -> Store:
        """This process's store; the main one's is at `path`, the others' are beside it until all are merged."""
        if path is None:
            return Store(settings)
        parts = _parts(path)
        if parts and not resume:
            raise InvalidInput(
                f"{parts[0]} is left of an interrupted benchmark: add --resume to go on with it, or delete it to begin anew"
            )
        store = Store.open(settings, path if self.main else _part(path, self.rank), resume=resume)
        for other in (path, *parts):
            if other != store.path and other.exists():
                left = Store.open(settings, other, resume=True)
                if self.main and int(other.suffix.removeprefix(".part")) >= self.count:  # its process is no longer there
                    store.adopt(left)
                else:
                    store.elsewhere |= set(left.units)
        return store


def _part(path: Path, rank: int) -> Path:
    return path.with_name(f"{path.name}.part{rank}")


def _parts(path: Path) -> list[Path]:
    """The files of other processes, in order."""
    wanted = re.compile(re.escape(path.name) + r"\.part\d+")
    return sorted(other for other in path.parent.iterdir() if wanted.fullmatch(other.name))


def share() -> Share:
    """This process's share, as `accelerate launch`, torchrun or mpirun has set it up."""
    if all(int(os.environ.get(name, "1")) == 1 for name in SIZES):
        return Share()
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=1))  # one may be done long before another
    return Share(state.process_index, state.num_processes, str(state.device))


def gather(store: Store, mine: Share) -> None:
    """Bring all processes' measurements into the main one's store; each run counts once."""
    everything = store.measurements
    if mine.count > 1:
        from accelerate import PartialState
        from accelerate.utils import gather_object

        everything = gather_object(everything)
        PartialState().destroy_process_group()
    if mine.main:
        store.measurements = list({(m.method, m.setting, m.repeat, m.question, m.turn): m for m in everything}.values())


def remove_parts(path: Path | None, mine: Share) -> None:
    """Delete the other processes' files, whose content the main one has."""
    for part in _parts(path) if path is not None and mine.main else ():
        part.unlink()
