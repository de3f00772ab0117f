"""The finished units of a benchmark or a sweep, in memory and in a file.

The file is replaced atomically after every unit. It refuses to mix records of other settings or
machines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import TypeAdapter, ValidationError

from ouroboros_core.benchmark.entrants import Spent
from ouroboros_core.benchmark.prompts import Question, digest
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import write_atomically
from ouroboros_core.messages import counted
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.version import commit

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sampling import Sampling

VERSION = 1
Unit = tuple[int, int | str]
"""Repeat and question id: a unit of work, which is done as a whole, with all entrants."""


@dataclass(frozen=True, kw_only=True)
class Counted(Spent):
    """Tokens and costs of a run, perhaps of its beginning alone.

    first_tokens   tokens of the first step
    first_seconds  from the start until they were there, prefill included
    cut            tokens of the baseline's text that only repeat a loop and do not count, see
                   `metrics.loop_start`
    """

    first_tokens: int = 0
    first_seconds: float = 0.0
    cut: int = 0


@dataclass(frozen=True, kw_only=True)
class Stretch(Counted):
    """A run until its text had at most `limit` tokens."""

    limit: int

    @property
    def counts(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "limit"}


@dataclass(frozen=True, kw_only=True)
class Measurement(Counted):
    """One run of one entrant on one turn of one question; in a benchmark as far as the baseline's
    text goes without a loop. `difference` is null if the text is that of the baseline;
    `explanation` says it in words. `host` is the machine's name where there were several processes.

    compared       whether the text ought to be that of the baseline
    shorter        the same run under smaller limits of new tokens
    lossless       whether the text follows the target's probabilities
    """

    method: str
    setting: str = ""
    repeat: int
    question: int | str
    turn: int = 0
    group: str = ""
    peak_memory_mb: float = 0.0
    compared: bool
    difference: Divergence | None = None
    explanation: str | None = None
    host: str = ""
    shorter: tuple[Stretch, ...] = ()
    lossless: bool = True

    @property
    def unit(self) -> Unit:
        return self.repeat, self.question

    @property
    def place(self) -> tuple[int, int | str, int]:
        """Repeat, question and turn: the runs of all entrants there are compared."""
        return self.repeat, self.question, self.turn

    def within(self, limit: int) -> Measurement:
        """The same run under a smaller limit of new tokens, one of `shorter`."""
        shorter = next(stretch for stretch in self.shorter if stretch.limit == limit)
        return replace(self, **shorter.counts, shorter=())


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


@dataclass(kw_only=True)
class Settings:
    """Settings that decide the numbers; a resumed measurement must have the same. `shorter`:
    smaller limits of new tokens, under which the same runs are also counted.

    name, records  of the whole, and where its records stand in the JSON
    cuts_loops     whether a run counts only as far as the baseline's text goes without a loop
    """

    name: ClassVar[str]
    records: ClassVar[str]
    cuts_loops: ClassVar[bool]

    questions: int
    prompts: str
    max_new_tokens: int
    sampling: dict[str, Any]
    repeats: int
    target: str
    draft: str | None
    environment: dict[str, Any]
    turns: bool = False
    shorter: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls, pair: Pair, questions: Sequence[Question], sampling: Sampling, **others: Any
    ) -> Self:
        """Return the settings of a measurement on these models and questions."""
        return cls(
            questions=len(questions),
            prompts=digest(questions),
            sampling=sampling.model_dump(),
            target=pair.target.name,
            draft=pair.draft_name,
            environment=asdict(pair.environment),
            **others,
        )


@dataclass(kw_only=True)
class BenchSettings(Settings):
    """Settings of a benchmark."""

    name, records, cuts_loops = "benchmark", "runs", True

    methods: list[str]
    peers: list[str]


@dataclass
class Store:
    """Finished units in memory and, with a path, on disk.

    memories  memories of the warm entrants after the last unit, as JSON by label
    commit    commit of the code that began, see `version.commit`
    """

    settings: Settings
    path: Path | None = None
    units: list[Unit] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    memories: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    complete: bool = False
    commit: str = field(default_factory=commit)

    @property
    def fair(self) -> list[Measurement]:
        """The records of what every method could run."""
        first: dict[int | str, int] = {}
        for skipped in self.left_out:
            first[skipped.question] = min(skipped.turn, first.get(skipped.question, skipped.turn))
        return [
            run
            for run in self.measurements
            if run.question not in first or run.turn < first[run.question]
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
        self, unit: Unit, measured: Sequence[Measurement], memories: dict[str, str] | None = None
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
        return f'{text[:-2]},\n "{self.settings.records}": [\n{runs}\n ]\n}}\n'

    @classmethod
    def open(cls, settings: Settings, path: Path | None, *, resume: bool) -> Store:
        """Return a new store, or the interrupted one; raises InvalidInput."""
        store = cls(settings, path)
        if path is None or not path.exists():
            return store
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["version"] != VERSION:
                raise InvalidInput(
                    f"{path} has version {state['version']}, this program reads {VERSION}: name "
                    "another file"
                )
            records = state[settings.records]
            if not resume:
                if state["complete"]:
                    return store
                raise InvalidInput(
                    f"{path} holds an interrupted {settings.name} ({len(state['units'])} questions "
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
            store.measurements = TypeAdapter(list[Measurement]).validate_python(records)
            done = state.get("units") or dict.fromkeys(run.unit for run in store.measurements)
            store.units = [(repeat, question) for repeat, question in done]
            store.commit = state.get("commit", "")
            store.memories = state.get("memories", {})
            store.left_out = TypeAdapter(list[LeftOut]).validate_python(state.get("left_out", []))
            store.complete = state["complete"]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"{path} is not a {settings.name}'s JSON ({error}); name another file"
            ) from None
        return store
