"""Summarises the runs of a sweep: one row per cell, the best cell, and the ideal draft length in
theory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from ouroboros_core.benchmark.entrants import Spent
from ouroboros_core.benchmark.repeats import repeats, speed_and_texts
from ouroboros_core.benchmark.store import Measurement
from ouroboros_core.messages import counted
from ouroboros_core.sweeps.grid import show
from ouroboros_core.trace import metrics
from ouroboros_core.trace.speedup import Speedup

if TYPE_CHECKING:
    from ouroboros_core.settings import Value
    from ouroboros_core.sweeps.grid import Axis, Cell, Grid

GAMMA = "gamma"
Runs: TypeAlias = Sequence[Measurement]


@dataclass(frozen=True)
class CellRow:
    """One cell of a sweep, from all its runs so far. Speedup and tokens per second are those of the
    median repeat, see `ouroboros_core.benchmark.report`.

    cell, coordinates  index in the grid, and the value on each axis
    runs               finished
    tokens_per_second  emitted tokens / seconds, prefill included
    speedup            that / plain_tokens_per_second
    ci95               95% confidence interval of speedup, from resampling the questions
    plain_tokens_per_second  of the plain runs in the same repeat
    acceptance_length  emitted tokens / target passes, the target's own tokens included; 0 if the
                       target made no pass
    acceptance_rate    accepted / tested tokens; null if nothing was tested
    draft_length       proposed tokens along the deepest branch, the mean over all target passes
    draft_cost         c: seconds of a draft pass / seconds of a plain pass; null without draft
                       passes
    equal, ties, differences  texts equal to plain decoding's, first differing at a rounding tie,
                              and beyond; null if the text
                       need not be equal
    lossless           whether the texts follow the target's probabilities
    repeats            the speedup of each repeat over all questions; none of one under way
    """

    cell: int
    coordinates: tuple[Value, ...]
    runs: int
    tokens: int
    tokens_per_second: float
    speedup: float
    ci95: tuple[float, float]
    acceptance_length: float
    acceptance_rate: float | None
    draft_length: float
    draft_cost: float | None
    equal: int | None
    ties: int | None
    differences: int | None
    lossless: bool = True
    repeats: tuple[float, ...] = ()
    plain_tokens_per_second: float = 0.0

    @property
    def speeds(self) -> str:
        """Tokens per second, and plain decoding's: they divide to the speedup."""
        return f"{self.tokens_per_second:.1f} (plain {self.plain_tokens_per_second:.1f})"

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest repeat; of a single one the 95% interval."""
        return Speedup(self.repeats).spread if len(self.repeats) > 1 else self.ci95

    @property
    def between(self) -> str:
        """` (least–largest)` of the repeats; empty for a single one, which has no spread."""
        text = Speedup(self.repeats).between if self.repeats else ""
        return f" {text}" if text else ""


@dataclass(frozen=True)
class Ideal:
    """The draft length that should be fastest (Leviathan et al., arXiv 2211.17192, theorem 3.8),
    and the numbers that it follows from.

    others   the values on all axes but that of gamma
    speedup  over plain decoding, as predicted; below 1 no draft length pays
    alpha    accepted / tested, over all runs at these values
    cost     c: seconds of a draft pass / seconds of a plain pass, over the same runs
    """

    others: tuple[Value, ...]
    gamma: int
    speedup: float
    alpha: float
    cost: float


def summary(points: Runs, grid: Grid) -> list[CellRow]:
    """A row for every cell that has runs, in the order of the grid.

    points  runs of cells and of plain decoding
    """
    runs = ((cell, *_runs(points, [cell])) for cell in grid.cells)
    return [
        row(cell.index, cell.coordinates, cell_runs, plain)
        for cell, cell_runs, plain in runs
        if cell_runs
    ]


def _runs(points: Runs, cells: Sequence[Cell]) -> tuple[Runs, Runs]:
    """Return the runs of cells that share plain decoding, and those of plain decoding beside."""
    names, (plain, *_) = {cell.spec.text for cell in cells}, [cell.spec.plain for cell in cells]
    cell_runs = [run for run in points if run.method in names]
    measured = {run.place for run in cell_runs}
    return cell_runs, [run for run in points if run.method == plain and run.place in measured]


def row(cell: int, coordinates: tuple[Value, ...], runs: Runs, plain: Runs) -> CellRow:
    """Return the row of a cell with its runs, and plain decoding's beside them."""
    measured, total = repeats(runs, plain), Spent.total(runs)
    return CellRow(
        **speed_and_texts(measured, runs),
        cell=cell,
        coordinates=coordinates,
        runs=len(runs),
        acceptance_length=metrics.ratio(total.tokens, total.passes),
        acceptance_rate=total.accepted / total.tested if total.tested else None,
        draft_length=metrics.ratio(total.depth, total.passes),
        draft_cost=_draft_cost(runs, plain),
        repeats=measured.speedup.each,
    )


def _draft_cost(runs: Runs, plain: Runs) -> float | None:
    """c, as in `Summary.draft_cost`; None if no draft was checked by a target."""
    checked, beside = Spent.total(run for run in runs if run.passes), Spent.total(plain)
    plain_seconds = metrics.ratio(beside.seconds.decode, beside.tokens)
    if not (checked.draft_passes and plain_seconds):
        return None
    return checked.seconds.draft / checked.draft_passes / plain_seconds


def best(rows: Sequence[CellRow]) -> CellRow | None:
    return max(rows, key=lambda row: (row.lossless, row.speedup), default=None)


def ideal(points: Runs, grid: Grid) -> list[Ideal]:
    """The ideal draft length for every combination of values on the axes other than gamma's.

    The theorem is about a chain that the draft model writes token by token; where a method has
    other proposals, they are part of alpha, and it is a guide. A stopping rule chooses which tokens
    are drafted, so its cells are left out. Empty for a method without gamma or without passes of a
    draft model.
    """
    setting = grid.kind.Hyperparameters.settings().get(GAMMA)
    if setting is None or setting.high is None:
        return []
    alike: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in grid.cells:
        if getattr(cell.spec.hyperparameters, "stop", "fixed") != "fixed":
            continue
        values = zip(grid.axes, cell.coordinates, strict=True)
        other_values = tuple(value for axis, value in values if axis.name != GAMMA)
        alike.setdefault(other_values, []).append(cell)
    lengths = []
    for other_values, cells in alike.items():
        runs, plain = _runs(points, cells)
        total, cost = Spent.total(runs), _draft_cost(runs, plain)
        if total.tested and cost is not None:
            alpha = total.accepted / total.tested
            lengths.append(
                Ideal(
                    other_values, *metrics.ideal_gamma(alpha, cost, int(setting.high)), alpha, cost
                )
            )
    return lengths


def by_theory(
    ideals: Sequence[Ideal], axes: Sequence[Axis], named: Callable[[str], str] = str
) -> list[str]:
    """Return the best draft lengths by theory in sentences; `named` returns the words for a
    setting."""
    rest = [axis.name for axis in axes if axis.name != GAMMA]
    sentences = []
    for ideal_length in ideals:
        other_values = zip(rest, ideal_length.others, strict=True)
        at = "".join(f", at {named(name)} {show(value)}" for name, value in other_values)
        slow = "" if ideal_length.speedup > 1 else ", so that none pays"
        sentences.append(
            f"By theory{at}, with acceptance {ideal_length.alpha:.2f} and draft passes that cost "
            f"{ideal_length.cost:.2f} plain steps, the best draft length is {ideal_length.gamma}: "
            f"{ideal_length.speedup:.2f}×{slow}."
        )
    return sentences


def interval(row: CellRow) -> str:
    """` [low, high]`; empty for a single question, which has none."""
    low, high = row.ci95
    return f" [{low:.2f}, {high:.2f}]" if low < high else ""


def conclusions(
    rows: Sequence[CellRow], ideals: Sequence[Ideal], grid: Grid, asked: int
) -> list[str]:
    """The best setting in words: as it was measured, and by theory; and how often that was.

    asked: repeats that the sweep was asked for; fewer may be complete
    """
    fastest = best(rows)
    if fastest is None:
        return []
    slow = "" if fastest.speedup > 1 else ": nothing here is faster than plain decoding"
    name, between = grid.describe(fastest.coordinates), interval(fastest)
    lines = [f"Measured best: {name}, {fastest.speedup:.2f}×{between}{fastest.between}{slow}."]
    if near := _near(fastest, rows):
        near_settings = counted(near, "other setting")
        lines.append(
            f"It is not clearly the best: {near_settings} came as far in one of its repeats."
        )
    return [*lines, *by_theory(ideals, grid.axes), about_spread(rows, asked)]


def _near(fastest: CellRow, rows: Sequence[CellRow]) -> int:
    """How many other settings were, in some repeat, as fast as the fastest in its slowest one."""
    if len(fastest.repeats) < 2:
        return 0
    least = min(fastest.repeats)
    return sum(
        row is not fastest and row.lossless == fastest.lossless and max(row.repeats) >= least
        for row in rows
        if row.repeats
    )


def about_spread(rows: Sequence[CellRow], asked: int) -> str:
    """Return a sentence about the round brackets, or about their absence.

    asked: repeats that the sweep was asked for
    """
    complete = max(len(row.repeats) for row in rows)
    if complete > 1:
        return f"In round brackets: the least and the largest speedup of {complete} repeats."
    remedy = f"{asked} repeats will show it" if asked > 1 else "use three repeats to see it"
    return f"Every prompt ran once, so no spread is known yet; {remedy}."


def to_csv(rows: Sequence[CellRow], axes: Sequence[Axis], names: Sequence[str] = ()) -> str:
    """Return the rows as CSV: their names if given, the axes, the numbers, interval and spread in
    two columns each."""
    several = ("cell", "coordinates", "ci95", "repeats")
    numbers = [f.name for f in fields(CellRow) if f.name not in several]
    out = io.StringIO()
    writer = csv.writer(out)
    bounds = ("ci95_low", "ci95_high", "repeats_low", "repeats_high")
    named = [[name] for name in names] or [[]] * len(rows)
    first = ["row"] if names else []
    writer.writerow([*first, *(axis.name for axis in axes), *numbers, *bounds])
    for name, row in zip(named, rows, strict=True):
        values = (getattr(row, name) for name in numbers)
        spread = Speedup(row.repeats).spread if row.repeats else ("", "")
        writer.writerow([*name, *row.coordinates, *values, *row.ci95, *spread])
    return out.getvalue()
