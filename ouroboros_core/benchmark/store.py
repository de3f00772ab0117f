"""What was measured, kept so that nothing is lost: one store a process, merged at the end.

What is kept - a benchmark's runs, a sweep's points - is said by the settings' `kind`; all else is
alike. A store is written at once or not at all, after every unit. It refuses to mix what was
measured under other settings or elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from ouroboros_core.benchmark.prompts import Question, digest
from ouroboros_core.benchmark.workers import BEAT_S, POLL_S, Workers
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.messages import counted
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.trace import Seconds

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling

VERSION = 1
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Environment variables in which launchers give the number of processes."""
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
LOCAL_RANKS = (
    "LOCAL_RANK",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
)
"""Those of a process's number, among all and among those of its machine."""
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""How often accelerate launch or torchrun has started the processes anew."""
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
class Stretch:
    """What a run has done until a text of at most `limit` tokens was there; counts as in
    Measurement."""

    limit: int
    tokens: int
    passes: int
    rows: int
    draft_passes: int
    seconds: Seconds
    first_tokens: int
    first_seconds: float
    cut: int


@dataclass(frozen=True)
class Measurement:
    """One run of one entrant on one turn of one question, counted as far as the baseline's text
    goes without a loop. `difference` is null if the text is that of the baseline; `explanation`
    says it in words. `host` is the machine's name where there were several processes.

    first_tokens   tokens of the first step
    first_seconds  from the start until they were there, prefill included; null in an older file
    cut            tokens of the baseline's text that only repeat a loop and do not count, see
                   `metrics.loop_start`; null in an older file, which counts them
    shorter        the same run under smaller limits of new tokens
    lossless       whether the text follows the target's probabilities; true in an older file
    """

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
    host: str = ""
    first_tokens: int = 0
    first_seconds: float | None = None
    cut: int | None = None
    shorter: tuple[Stretch, ...] = ()
    lossless: bool = True

    @property
    def unit(self) -> Unit:
        return self.repeat, self.question

    def within(self, limit: int) -> Measurement:
        """The same run under a smaller limit of new tokens, one of `shorter`."""
        found = next(one for one in self.shorter if one.limit == limit)
        known = {name: value for name, value in vars(found).items() if name != "limit"}
        return replace(self, **known, shorter=())

    @property
    def key(self) -> Hashable:
        return self.method, self.setting, self.repeat, self.question, self.turn


@dataclass(frozen=True)
class LeftOut:
    """A question that not every method could run. It counts for none of them, so that all rows of
    a table are of the same questions.

    turn    the first one that is left out; those before it count
    reason  why, in words that name question, turn and who could not run it
    """

    question: int | str
    turn: int
    reason: str


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
class Conditions:
    """What everything was measured on: number and digest of the questions, lengths, sampling,
    models, machine."""

    questions: int
    prompts: str
    max_new_tokens: int
    sampling: dict[str, Any]
    repeats: int
    target: str
    draft: str | None
    environment: dict[str, Any]


def conditions(
    pair: Pair, questions: Sequence[Question], sampling: Sampling, count: int, repeats: int
) -> dict[str, Any]:
    """The fields of Conditions; count: new tokens of a run at most."""
    return {
        "questions": len(questions),
        "prompts": digest(questions),
        "max_new_tokens": count,
        "sampling": sampling.model_dump(),
        "repeats": repeats,
        "target": pair.target.name,
        "draft": pair.draft_name,
        "environment": asdict(pair.environment),
    }


@dataclass(kw_only=True)
class Settings(Conditions):
    """What decides the numbers of a benchmark; a resumed one must have the same. `shorter`: limits
    of new tokens under which the same runs are counted, too."""

    methods: list[str]
    peers: list[str]
    turns: bool
    shorter: list[int] = field(default_factory=list)

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
    left_out: list[LeftOut] = field(default_factory=list)
    elsewhere: set[Unit] = field(default_factory=set)
    """Units that other processes have done."""
    complete: bool = False
    base: Path | None = None
    """Where the main process's store lies, beside which the others' are."""
    replaced: tuple[int, int] | None = None
    """Inode and time of the finished file at `base` that this measurement replaces."""

    @property
    def fair(self) -> list[R]:
        """The records of what every method could run."""
        first: dict[int | str, int] = {}
        for one in self.left_out:
            first[one.question] = min(one.turn, first.get(one.question, one.turn))
        return [
            run
            for run in self.measurements
            if (question := run.unit[1]) not in first or getattr(run, "turn", 0) < first[question]
        ]

    @property
    def lines(self) -> list[str]:
        """What was left out, in sentences; empty if nothing was."""
        if not self.left_out:
            return []
        count = len({one.question for one in self.left_out})
        verb = "was" if count == 1 else "were"
        return [
            f"{counted(count, 'question')} {verb} left out, or the later turns, for every method "
            "alike:",
            *(one.reason for one in self.left_out),
        ]

    def leave_out(self, question: int | str, turn: int, reason: str) -> None:
        """Note that a question cannot be run from a turn on; what is known already stays."""
        if (question, turn) not in {(one.question, one.turn) for one in self.left_out}:
            self.left_out.append(LeftOut(question, turn, reason))

    def others(self) -> Iterator[Store[R]]:
        """What the other processes' files hold now; the earlier measurement that is to be replaced
        is none of them, one that another process has just finished is."""
        if self.base is None:
            return
        for other in (self.base, *_parts(self.base)):
            with contextlib.suppress(FileNotFoundError):  # just cleared away
                if other != self.path and _version_of(other) not in (None, self.replaced):
                    yield Store.open(self.settings, other, resume=True)

    def refresh(self) -> None:
        """Note what other processes have done meanwhile."""
        for other in self.others():
            self.elsewhere |= set(other.units)

    def adopt(self, other: Store[R]) -> None:
        """Add the units that only the other store has."""
        new = [unit for unit in other.units if unit not in self.units]
        self.units += new
        self.measurements += [run for run in other.measurements if run.unit in new]
        for one in other.left_out:
            self.leave_out(one.question, one.turn, one.reason)

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
        write_atomically(self.path, self.text(report))

    def text(self, report: dict[str, Any]) -> str:
        """The JSON of all that is kept, a record a line."""
        state: dict[str, Any] = {
            "version": VERSION,
            "complete": self.complete,
            "settings": asdict(self.settings),
            **report,
        }
        if self.left_out:
            state |= {"left_out": [asdict(one) for one in self.left_out]}
        if self.left_out or not self.complete:
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
            state = json.loads(path.read_text(encoding="utf-8"))
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
                # An earlier version knew no shorter texts.
                was = (
                    state["settings"].get("shorter", [])
                    if name == "shorter"
                    else (state["settings"][name])
                )
                if was != value:
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
            store.left_out = TypeAdapter(list[LeftOut]).validate_python(state.get("left_out", []))
            store.complete = state["complete"]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"{path} is not a {kind.name}'s JSON ({error}); name another file"
            ) from None
        return store


T = TypeVar("T")


@dataclass(frozen=True)
class Share:
    """This process among those that share the work.

    Without `workers`, or where it is `fixed`, every `count`-th question is its own, from `rank` on.
    With `workers` it takes what nobody has taken, and takes over what a lost process had begun.
    """

    rank: int = 0
    count: int = 1
    device: str | None = None
    """The device that is this process's among several, such as cuda:1."""
    workers: Workers | None = None
    fixed: bool = False

    @property
    def main(self) -> bool:
        return self.rank == 0

    @property
    def host(self) -> str:
        """The machine's name, where there are several processes."""
        return self.workers.me.host if self.workers else ""

    def may(self, number: int) -> bool:
        """Whether a unit of work, by its number, can be this process's."""
        return bool(self.workers and not self.fixed) or number % self.count == self.rank

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
        store.base = path
        if not resume:
            store.replaced = _finished(path)
        for left in store.others():
            assert left.path is not None
            number = left.path.suffix.removeprefix(".part")
            if self.main and number.isdigit() and int(number) >= self.count:
                store.adopt(left)  # its process is no longer there
            else:
                store.elsewhere |= set(left.units)
        if self.workers:
            self.workers.meet(asdict(settings))
        return store

    def take(
        self, store: Store[R], left: Callable[[], Sequence[T]], number: Callable[[T], int]
    ) -> Iterator[T]:
        """Units that are this process's to do, one by one; when there are no more, all units are
        done, but for those of a fixed share.

        left: those that `store` knows to be undone, now; number: of one of them
        """
        workers = None if self.fixed else self.workers
        if workers is None:
            yield from left()
            return
        for unit in left():
            if workers.take(number(unit)):
                yield unit
        pause = POLL_S
        while not workers.cleared():
            lost = workers.lost()  # before what they have finished is read
            store.refresh()
            undone, had = left(), False
            for unit in undone:
                owner = lost.get(number(unit))
                if owner is not None and workers.take_over(number(unit), owner):
                    had = True
                    yield unit
            if not undone:
                return
            if not had:
                time.sleep(pause)
                pause = min(2 * pause, BEAT_S)  # the others are measuring

    def finishes(self) -> bool:
        """Whether this process brings together what all have done; waits as long as that may
        change. Raises InvalidInput where a process of a fixed share was lost."""
        if self.workers is None or (self.fixed and not self.main):
            return self.main
        while not self.workers.cleared():
            if self.fixed and self.workers.all_others_done():
                return True
            first = next(iter(self.workers.there()), None)
            if not self.fixed and first and first.token == self.workers.me.token:
                return True
            time.sleep(POLL_S)
        return False

    def leave(self, *, done: bool) -> None:
        """End this process's part; done: False where it was stopped before its work was."""
        if self.workers:
            self.workers.leave(done=done)


def _part(path: Path, rank: int) -> Path:
    return path.with_name(f"{path.name}.part{rank}")


def _version_of(path: Path) -> tuple[int, int] | None:
    """Inode and time of a file, of which one that is written anew has others; None: no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _finished(path: Path) -> tuple[int, int] | None:
    """The version of a file that holds a finished measurement; None where it does not."""
    version = _version_of(path)
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        if json.loads(path.read_text(encoding="utf-8"))["complete"]:
            return version
    return None


def _parts(path: Path) -> list[Path]:
    """The files of other processes, in order."""
    wanted = re.compile(re.escape(path.name) + r"\.part\d+")
    return sorted(other for other in path.parent.iterdir() if wanted.fullmatch(other.name))


def share(path: Path | None) -> Share:
    """This process's share, as set up by `accelerate launch`, torchrun or mpirun. path: of the
    output, beside which the processes find each other; raises InvalidInput where they have none."""
    count = _launched(SIZES, 1)
    if count == 1:
        return Share()
    if path is None:
        raise InvalidInput(
            f"{count} processes keep what they measure in one place: name it with --json, on a "
            "file system that all of them see"
        )
    import torch

    rank, local = _launched(RANKS, 0), _launched(LOCAL_RANKS, 0)
    devices = torch.cuda.device_count()
    device = f"cuda:{local % devices}" if devices else "cpu"
    return Share(rank, count, device, Workers(path.with_name(f"{path.name}.shared"), rank, count))


def _launched(names: Sequence[str], default: int) -> int:
    """The first of these environment variables that is a number above the default."""
    texts = (os.environ.get(name, "").strip() for name in names)
    values = (int(text) for text in texts if text.isascii() and text.isdigit())
    return next((value for value in values if value > default), default)


def restarted() -> bool:
    """Whether a launcher has started the processes anew after one was lost."""
    return _launched([RESTARTS], 0) > 0


def gather(store: Store[R]) -> None:
    """Bring all processes' measurements into this store, which becomes the main one; each run
    counts once."""
    for other in store.others():
        store.adopt(other)
    store.path = store.base or store.path
    store.measurements = list({run.key: run for run in store.measurements}.values())


def remove_parts(path: Path | None, mine: Share) -> None:
    """Delete the other processes' files, whose content the main one has."""
    for part in _parts(path) if path is not None else ():
        part.unlink()
    if mine.workers:
        mine.workers.clear()
