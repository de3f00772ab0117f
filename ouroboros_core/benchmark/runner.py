"""The benchmark's loop: prompt by prompt, every entrant in turn, the order rotated; what is done is kept.

Entrants are interleaved so that a machine that gets slower slows all of them, and rotated so that none always comes first. A
unit of work is one question in one repeat, with all its turns and all entrants; it is stored as soon as it is finished, so that
an interrupted benchmark goes on where it stopped and then has the counts of an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from ouroboros_core.benchmark.entrants import BASELINE, Entrant, MethodEntrant, Outcome
from ouroboros_core.benchmark.memory import MemoryPeak
from ouroboros_core.benchmark.prompts import Question
from ouroboros_core.decoding.engine import check_room
from ouroboros_core.decoding.equality import Divergence, compare
from ouroboros_core.decoding.text import decode_all
from ouroboros_core.decoding.trace import Seconds
from ouroboros_core.errors import InvalidInput
from ouroboros_core.memory.pool import PhrasePool
from ouroboros_core.sampling import Sampling

if TYPE_CHECKING:
    from ouroboros_core.models.pairs import Pair

VERSION = 1
WARM_UP_TOKENS = 8
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


@contextlib.contextmanager
def _naming(question: Question, turn: int) -> Iterator[None]:
    """Says of bad input which question it is."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"question {question.id}, turn {turn + 1}: {error}") from None


class Runner:
    """Runs what is left of a benchmark."""

    def __init__(self, pair: Pair, entrants: Sequence[Entrant], questions: Sequence[Question], store: Store, mine: Share) -> None:
        assert any(entrant.label == BASELINE for entrant in entrants), "the baseline always runs"
        self.pair, self.entrants, self.store = pair, list(entrants), store
        self.memory = MemoryPeak(pair.target.device.type)
        self._check(questions)
        repeats = range(store.settings.repeats)
        work = [(repeat, question) for repeat in repeats for question in questions]
        self.work = [(n, *unit) for n, unit in enumerate(work) if n % mine.count == mine.rank]

    def _check(self, questions: Sequence[Question]) -> None:
        """Raise InvalidInput, before any work, for a question that could not run."""
        chat = bool(self.pair.tokenizer.chat_template)
        for question in questions:
            if self.store.settings.turns and len(question.turns) > 1 and not chat:
                raise InvalidInput(f"{self.pair.target.name} has no chat template, which later turns need: leave --turns out")
            with _naming(question, 0):
                check_room(self.pair.encode(question.turns[0], chat=chat), self.store.settings.max_new_tokens, self.pair.target)

    @property
    def left(self) -> list[tuple[int, int, Question]]:
        """Units not yet done: number, repeat, question."""
        done = {*self.store.units, *self.store.elsewhere}
        return [(n, repeat, question) for n, repeat, question in self.work if (repeat, question.id) not in done]

    def warm_up(self) -> None:
        """A few tokens each, so that no clock measures first calls; then warm pools are what they were."""
        for entrant in self.entrants:
            entrant.run("Hello", (), min(WARM_UP_TOKENS, self.store.settings.max_new_tokens))
            if isinstance(entrant, MethodEntrant):
                entrant.reset()
                if entrant.pool is not None and entrant.label in self.store.pools:
                    entrant.pool = PhrasePool.from_json(self.store.pools[entrant.label])

    def run(self, progress: Callable[[str], None] = lambda _: None) -> Iterator[Unit]:
        """Do what is left, unit by unit; each is stored before it is yielded. `progress` is told of every run."""
        left = self.left
        if left:
            progress("warming up")
            self.warm_up()
        for number, repeat, question in left:
            measured = self._unit(number, repeat, question, progress)
            pools = {e.label: e.pool.to_json() for e in self.entrants if isinstance(e, MethodEntrant) and e.pool is not None}
            self.store.add((repeat, question.id), measured, pools)
            yield repeat, question.id

    def _unit(self, number: int, repeat: int, question: Question, progress: Callable[[str], None]) -> list[Measurement]:
        start = number % len(self.entrants)
        order = [*self.entrants[start:], *self.entrants[:start]]
        history: list[str] = []
        measured: list[Measurement] = []
        for turn, prompt in enumerate(question.turns if self.store.settings.turns else question.turns[:1]):
            runs: list[tuple[Entrant, Outcome, float]] = []
            for entrant in order:
                progress(f"question {question.id}, {' '.join(filter(None, (entrant.label, entrant.setting)))}")
                self.memory.reset()
                with _naming(question, turn):
                    outcome = entrant.run(prompt, history, self.store.settings.max_new_tokens)
                runs.append((entrant, outcome, self.memory.megabytes()))
            plain = next(outcome.tokens for entrant, outcome, _ in runs if entrant.label == BASELINE)
            encoded = self.pair.encode(prompt, chat=bool(self.pair.tokenizer.chat_template), history=history)
            for entrant, outcome, peak in runs:
                difference = self._difference(encoded, outcome, plain) if entrant.repeats_plain_text else None
                run = Measurement(
                    method=entrant.label,
                    setting=entrant.setting,
                    repeat=repeat,
                    question=question.id,
                    turn=turn,
                    group=question.group,
                    tokens=len(outcome.tokens),
                    passes=outcome.passes,
                    rows=outcome.rows,
                    draft_passes=outcome.draft_passes,
                    seconds=outcome.seconds,
                    peak_memory_mb=round(peak, 1),
                    compared=entrant.repeats_plain_text,
                    difference=difference,
                    explanation=None if difference is None else difference.sentence(self._pieces(difference)),
                )
                measured.append(run)
            history += [prompt, self.pair.tokenizer.decode(list(plain), skip_special_tokens=True)]
        return measured

    def _difference(self, prompt: Sequence[int], outcome: Outcome, plain: Sequence[int]) -> Divergence | None:
        sampling = Sampling.model_validate(self.store.settings.sampling)
        dtype = self.store.settings.environment["dtype"]
        return compare(self.pair.target, prompt, outcome.tokens, plain, dtype, sampling)

    def _pieces(self, difference: Divergence) -> dict[int, str]:
        return {t: decode_all(self.pair.tokenizer, [t]) for t in (difference.token, difference.other) if t is not None}
