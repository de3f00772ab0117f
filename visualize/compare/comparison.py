"""A comparison: what runs side by side, and the runs so far."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import counted
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup, TimedRound
from ouroboros_core.trace.summary import Summary, Verdict
from visualize.kit import labels
from visualize.server.limits import whole_number

if TYPE_CHECKING:
    from ouroboros_core.benchmark.store import Measurement
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.settings import Value
    from ouroboros_core.sweeps.cells import CellRow, Ideal
    from ouroboros_core.sweeps.grid import Grid
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.trace import Trace
    from ouroboros_core.what_if.draft_length import Predicted
    from visualize.watch.visit import VisitRun

PLAIN = 0
"""The lane of plain decoding."""
MOST_LANES = 30
"""The most rows of a comparison, without plain decoding."""
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The draft lengths that are predicted."""


@dataclass(frozen=True)
class Plan:
    """Rows to compare: the cells of a grid, and other methods at their defaults.

    tokens  new tokens of a run, at most
    rounds  how often each lane runs on each prompt
    """

    prompts: tuple[str, ...]
    grid: Grid
    others: tuple[str, ...]
    tokens: int
    rounds: int
    chat: bool = True

    @classmethod
    def read(cls, asked: Mapping[str, Any], most_prompts: int, most_tokens: int) -> Plan:
        """Return the plan of a visitor's choices; raises InvalidInput, which names all faults.

        asked  {prompts, method, axes, others, tokens}, see compare_form.js
        """
        from ouroboros_core.sweeps.grid import Axis, Grid

        faults: list[str] = []
        prompts = [str(text).strip() for text in asked.get("prompts", ())]
        prompts = [text for text in prompts if text]
        if not 1 <= len(prompts) <= most_prompts:
            several = f"between 1 and {most_prompts} prompts"
            needed = "one prompt" if most_prompts == 1 else several
            faults.append(
                f"a comparison needs {needed}, got {len(prompts)}: choose an example, or write one"
            )
        method = methods.get(str(asked.get("method")))
        others = tuple(methods.get(str(name)).id for name in asked.get("others", ()))
        grid, tokens = None, 0
        try:
            axes = tuple(
                Axis(str(name), tuple(map(str, values))) for name, values in asked.get("axes", ())
            )
            for axis in axes:
                if axis.name not in method.Hyperparameters.settings():
                    raise InvalidInput(f"{axis.name[:40]} is no setting of {method.id}")
            grid = Grid.read(method.id, axes, "")
            rows = len(grid.cells) + len(others)
            if rows > MOST_LANES:
                faults.append(
                    f"a comparison has at most {MOST_LANES} rows, got {rows}: choose fewer values"
                )
        except InvalidInput as error:
            faults.append(str(error))
        try:
            tokens = whole_number("max_new_tokens", asked.get("tokens"), most_tokens)
        except InvalidInput as error:
            faults.append(str(error))
        if faults or grid is None:
            raise InvalidInput("; ".join(faults))
        return cls(tuple(prompts), grid, others, tokens, ROUNDS)

    @property
    def names(self) -> list[str]:
        """Return the names of the lanes; the first is plain decoding."""
        cells = [_cell_name(self.grid, cell.coordinates) for cell in self.grid.cells]
        return [labels.method(methods.PLAIN), *cells, *map(labels.method, self.others)]

    def task(self, lane: int, prompt: str) -> Task:
        """Return a run of a lane."""
        from ouroboros_core.decoding.generation import Task

        cells = self.grid.cells
        if lane == PLAIN:
            return self.task(1, prompt).plain()
        if lane <= len(cells):
            cell = cells[lane - 1]
            method, chosen = self.grid.method, cell.spec.hyperparameters
        else:
            method = self.others[lane - 1 - len(cells)]
            chosen = methods.get(method).Hyperparameters()
        return Task(prompt, method, chosen, Sampling(), self.tokens, self.chat)


def _cell_name(grid: Grid, coordinates: Sequence[Value]) -> str:
    """Return a cell in words: `Speculative decoding, draft length 4`."""
    from ouroboros_core.sweeps.grid import show

    values = zip(grid.axes, coordinates, strict=True)
    settings = (f"{labels.setting(axis.name)} {show(value)}" for axis, value in values)
    return ", ".join((labels.method(grid.method), *settings))


Unit = tuple[int, int, int]
"""Round, prompt and lane."""


@dataclass
class Comparison:
    """The runs of a plan so far.

    where        models and machine
    runs         by round, prompt and lane
    differences  by prompt and lane, where the text of the first run differs from plain decoding's
    repeats      by lane, the speedups of rounds whose runs are not kept
    refused      by lane, why it cannot run
    """

    plan: Plan
    where: str
    runs: dict[Unit, Trace] = field(default_factory=dict)
    differences: dict[tuple[int, int], Divergence | None] = field(default_factory=dict)
    repeats: Mapping[int, Speedup] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        return self.plan.names

    @property
    def total(self) -> int:
        """Return the number of all runs."""
        lanes = len(self.names) - len(self.refused)
        return self.plan.rounds * len(self.plan.prompts) * lanes

    def rounds(self, lane: int) -> list[int]:
        """Return the rounds in which a lane and plain decoding ran on all prompts; before there is
        one, the first round as far as it is."""
        counts = [len(self.pairs(lane, number)) for number in range(self.plan.rounds)]
        complete = [n for n, count in enumerate(counts) if count == len(self.plan.prompts)]
        return complete or [n for n, count in enumerate(counts[:1]) if count]

    def pairs(self, lane: int, number: int) -> dict[int, tuple[Trace, Trace]]:
        """Return by prompt the runs of a lane in a round, each with its plain run."""
        runs = {
            prompt: (self.runs.get((number, prompt, lane)), self.runs.get((number, prompt, PLAIN)))
            for prompt in range(len(self.plan.prompts))
        }
        return {
            prompt: (trace, plain) for prompt, (trace, plain) in runs.items() if trace and plain
        }

    def speedup(self, lane: int) -> Speedup | None:
        """Return the speedups of the rounds of a lane; None before its first run."""
        if lane in self.repeats:
            return self.repeats[lane]
        rounds = tuple(_speedup(self.pairs(lane, n).values()) for n in self.rounds(lane))
        return Speedup(rounds) if rounds else None

    def shown(self, lane: int) -> dict[int, tuple[Trace, Trace]]:
        """Return the runs of the round with the median speedup, as `pairs`."""
        rounds, speedup = self.rounds(lane), self.speedup(lane)
        if speedup is None or not rounds:
            return {}
        return self.pairs(lane, rounds[0 if lane in self.repeats else speedup.middle])

    def summaries(self, lane: int) -> Iterator[Summary]:
        """Yield the figures of the runs of `shown`."""
        for prompt, (trace, plain) in self.shown(lane).items():
            yield Summary(trace, plain, self.differences.get((prompt, lane)))

    def verdict(self, lane: int) -> Verdict:
        """Return the worst verdict on the texts of a lane."""
        order = list(Verdict)
        verdicts = (summary.verdict for summary in self.summaries(lane))
        return max(verdicts, key=order.index, default=Verdict.NOT_COMPARED)

    def _points(self, lane: int) -> tuple[list[Measurement], list[Measurement]]:
        """Return the runs of a lane as a sweep has them, and plain decoding's beside them."""
        from ouroboros_core.benchmark.entrants import outcome_of
        from ouroboros_core.benchmark.store import Measurement

        spec = self.plan.grid.cells[lane - 1 if lane in self._cells else 0].spec
        runs: list[Measurement] = []
        plain_runs: list[Measurement] = []
        for number in self.rounds(lane):
            for prompt, (trace, plain) in self.pairs(lane, number).items():
                place: dict[str, Any] = {"repeat": number, "question": prompt, "compared": True}
                runs.append(
                    Measurement(
                        **vars(outcome_of(trace).total),
                        **place,
                        method=spec.text if lane in self._cells else trace.method,
                        difference=self.differences.get((prompt, lane)),
                    )
                )
                plain_runs.append(
                    Measurement(**vars(outcome_of(plain).total), **place, method=spec.plain)
                )
        return runs, plain_runs

    @property
    def _cells(self) -> range:
        """Return the lanes of the grid."""
        return range(1, 1 + len(self.plan.grid.cells))

    @property
    def rows(self) -> list[CellRow]:
        """Return the cells of the grid that were measured."""
        return [row for lane, row in self.table.items() if lane in self._cells]

    @property
    def others(self) -> dict[str, CellRow]:
        """Return the other methods that were measured, by name."""
        first = self._cells.stop
        return {self.names[lane]: row for lane, row in self.table.items() if lane >= first}

    @property
    def table(self) -> dict[int, CellRow]:
        """Return by lane the figures of all rows that were measured; a row that is no cell of the
        grid has empty coordinates."""
        from ouroboros_core.sweeps import cells

        elsewhere = ("",) * len(self.plan.grid.axes)
        table = {}
        for lane in range(len(self.names)):
            runs, plain = self._points(lane)
            if runs:
                inside = lane in self._cells
                coordinates = self.plan.grid.cells[lane - 1].coordinates if inside else elsewhere
                row = cells.row(lane - 1, coordinates, runs, plain)
                if recorded := self.repeats.get(lane):
                    row = replace(row, speedup=recorded.median, repeats=recorded.each)
                table[lane] = row
        return table

    @property
    def ideals(self) -> list[Ideal]:
        """Return the best draft lengths by theory."""
        from ouroboros_core.sweeps import cells

        points = {}
        for lane in self._cells:
            for run in itertools.chain(*self._points(lane)):
                points[run.method, run.place] = run
        return cells.ideal([*points.values()], self.plan.grid)

    @property
    def predicted(self) -> dict[int, Predicted]:
        """Return, by draft length, the prediction of the only run that is compared."""
        from ouroboros_core.sweeps.cells import GAMMA
        from ouroboros_core.what_if import draft_length

        grid, runs = self.plan.grid, list(self.shown(1).values())
        if [axis.name for axis in grid.axes] != [GAMMA] or len(grid.cells) > 1 or len(runs) != 1:
            return {}
        try:
            lengths = draft_length.DraftLengths(*runs[0])
        except InvalidInput:
            return {}
        others = set(LENGTHS) - {cell.coordinates[0] for cell in grid.cells}
        return {length: lengths.of(length) for length in sorted(others)}

    @property
    def size(self) -> str:
        """Return how much is compared, in words."""
        rounds = counted(self.plan.rounds, "round")
        return f"{counted(len(self.plan.prompts), 'prompt')}, {rounds}"


def _speedup(pairs: Iterable[tuple[Trace, Trace]]) -> float:
    """Return the speedup of a round over several prompts."""
    timed = (TimedRound(metrics.timing(plain), metrics.timing(trace)) for trace, plain in pairs)
    return TimedRound.total(timed).speedup


@dataclass(frozen=True)
class SideBySide:
    """Two runs of one prompt and one model, each with its plain run if there is one."""

    first: VisitRun
    second: VisitRun

    def __post_init__(self) -> None:
        a, b = (run.trace for run in (self.first, self.second))
        models, prompts = {a.target, b.target}, {a.prompt.tokens, b.prompt.tokens}
        for noun, different in (("model", models), ("prompt", prompts)):
            if len(different) > 1:
                raise InvalidInput(f"the runs are of two {noun}s: compare runs of one {noun}")

    def speedup(self, lane: int) -> Speedup | None:
        """Return the speedups of the rounds of a lane."""
        run = self._run(lane)
        return run.speedup if run else None

    def _run(self, lane: int) -> VisitRun | None:
        return {1: self.first, 2: self.second}.get(lane)

    def shown(self, lane: int) -> dict[int, tuple[Trace, Trace | None]]:
        """Return the run of a lane by its prompt, with its plain run."""
        run = self._run(lane)
        return {0: (run.trace, run.baseline)} if run else {}
