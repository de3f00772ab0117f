"""The finished units of a benchmark or a sweep, in memory and in a file.

The `kind` of the settings names the records: a benchmark's runs, a sweep's points. The file is
replaced atomically after every unit. It refuses to mix records of other settings or machines.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from ouroboros_core.benchmark.prompts import Question, digest
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.messages import counted
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.trace import Seconds
from ouroboros_core.version import commit

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling

VERSION = 1
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
    """A run until its text had at most `limit` tokens; counts as in Measurement."""

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
        shorter = next(stretch for stretch in self.shorter if stretch.limit == limit)
        counts = {name: value for name, value in vars(shorter).items() if name != "limit"}
        return replace(self, **counts, shorter=())

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
    """The records of a store, and the words for them.

    name     of the whole, such as benchmark
    unit     the name of a unit of work, such as question
    records  where the records stand in the JSON
    """

    name: str
    unit: str
    records: str
    record: type[R]


class Plan(Protocol[R]):
    """Settings, a dataclass, that decide the numbers: a resumed measurement has the same."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> Kind[R]: ...


@dataclass(kw_only=True)
class Conditions:
    """The conditions of a measurement: questions, lengths, sampling, models, machine."""

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
    """Settings that decide the numbers of a benchmark; a resumed one must have the same. `shorter`:
    smaller limits of new tokens, under which the same runs are also counted."""

    methods: list[str]
    peers: list[str]
    turns: bool
    shorter: list[int] = field(default_factory=list)

    @property
    def kind(self) -> Kind[Measurement]:
        return Kind("benchmark", "question", "runs", Measurement)


@dataclass
class Store(Generic[R]):
    """Finished units in memory and, with a path, on disk.

    memories  memories of the warm entrants after the last unit, as JSON by label
    commit    commit of the code that began, see `version.commit`
    """

    settings: Plan[R]
    path: Path | None = None
    units: list[Unit] = field(default_factory=list)
    measurements: list[R] = field(default_factory=list)
    memories: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    complete: bool = False
    commit: str = field(default_factory=commit)

    @property
    def fair(self) -> list[R]:
        """The records of what every method could run."""
        first: dict[int | str, int] = {}
        for skipped in self.left_out:
            first[skipped.question] = min(skipped.turn, first.get(skipped.question, skipped.turn))
        return [
            run
            for run in self.measurements
            if (question := run.unit[1]) not in first or getattr(run, "turn", 0) < first[question]
        ]

    @property
    def lines(self) -> list[str]:
        """Return sentences about the questions that were left out."""
        if not self.left_out:
            return []
        count = len({skipped.question for skipped in self.left_out})
        verb = "was" if count == 1 else "were"
        return [
            f"{counted(count, 'question')} {verb} left out, or the later turns, for every method "
            "alike:",
            *(skipped.reason for skipped in self.left_out),
        ]

    def leave_out(self, question: int | str, turn: int, reason: str) -> None:
        """Note that a question cannot be run from a turn on."""
        if (question, turn) not in {(skipped.question, skipped.turn) for skipped in self.left_out}:
            self.left_out.append(LeftOut(question, turn, reason))

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
            "commit": self.commit,
            "complete": self.complete,
            "settings": asdict(self.settings),
            **report,
        }
        if self.left_out:
            state |= {"left_out": [asdict(skipped) for skipped in self.left_out]}
        if self.left_out or not self.complete:
            state |= {"units": self.units, "memories": self.memories}
        text = json.dumps(state, indent=1)
        written = (asdict(run) for run in self.measurements)
        runs = ",\n".join("  " + json.dumps(run, allow_nan=True) for run in written)
        return f'{text[:-2]},\n "{self.settings.kind.records}": [\n{runs}\n ]\n}}\n'

    @classmethod
    def open(cls, settings: Plan[R], path: Path | None, *, resume: bool) -> Store[R]:
        """Return a new store, or the interrupted one; raises InvalidInput."""
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
            earlier = {"shorter": [], **state["settings"]}  # old versions knew no shorter texts
            for name, value in asdict(settings).items():
                if (was := earlier[name]) != value:
                    raise InvalidInput(
                        f"{path} was measured with {name} {was}, not {value}: resume with the "
                        "same, or name another file"
                    )
            store.measurements = [
                TypeAdapter(kind.record).validate_python(record) for record in records
            ]
            done = state.get("units") or dict.fromkeys(run.unit for run in store.measurements)
            store.units = [tuple(unit) for unit in done]
            store.commit = state.get("commit", "")
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
