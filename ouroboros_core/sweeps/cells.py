"""Summarises a sweep's points: one row per cell, the best cell, and the ideal draft length in
theory."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ouroboros_core.benchmark.entrants import outcome_of
from ouroboros_core.benchmark.repeats import Repeats, TimedRun
from ouroboros_core.benchmark.store import Unit
from ouroboros_core.messages import counted
from ouroboros_core.sweeps.grid import show
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.speedup import Speedup, TimedRound, Timing
from ouroboros_core.trace.trace import Seconds, Trace

if TYPE_CHECKING:
    from ouroboros_core.settings import Value
    from ouroboros_core.sweeps.grid import Axis, Grid

GAMMA = "gamma"


@dataclass(frozen=True)
class Point:
    """One run of one cell on one question, and the plain run that it is compared with.

    passes           of the target, prefill apart
    accepted, tested as in Step, summed: accepted / tested is the acceptance rate
    depth_sum        of each step's deepest branch; divided by passes it is the mean draft length
    plain_tokens     of plain decoding with the same sampling, in the same process and turn; as many
                     passes
    compared         whether the text ought to be that of plain decoding; difference: where it is
                     not
    host             the machine's name, where there were several processes
    lossless         whether the text follows the target's probabilities
    """

    cell: int
    question: int | str
    repeat: int
    tokens: int
    passes: int
    draft_passes: int
    accepted: int
    tested: int
    depth_sum: int
    seconds: Seconds
    plain_tokens: int
    plain_seconds: Seconds
    compared: bool
    difference: Divergence | None = None
    host: str = ""
    lossless: bool = True

    @classmethod
    def of(
        cls, unit: tuple[int, int | str, int], trace: Trace, plain: Trace, **facts: Any
    ) -> Point:
        """Return the record of a run beside its plain run.

        unit   repeat, question and cell
        facts  compared, and perhaps difference, host and lossless
        """
        repeat, question, cell = unit
        outcome, baseline = outcome_of(trace), outcome_of(plain)
        return cls(
            cell=cell,
            question=question,
            repeat=repeat,
            tokens=outcome.count,
            passes=outcome.passes,
            draft_passes=outcome.draft_passes,
            accepted=sum(len(step.path) for step in trace.steps),
            tested=sum(step.tested for step in trace.steps),
            depth_sum=sum(max(step.tree.depths) for step in trace.steps),
            seconds=outcome.seconds,
            plain_tokens=baseline.count,
            plain_seconds=baseline.seconds,
            **facts,
        )

    @property
    def identical(self) -> bool | None:
        """Whether the text is that of plain decoding; None if it need not be."""
        return self.difference is None if self.compared else None

    @property
    def timing(self) -> Timing:
        return Timing(self.tokens, self.seconds.prefill + self.seconds.decode)

    @property
    def plain_timing(self) -> Timing:
        return Timing(self.plain_tokens, self.plain_seconds.prefill + self.plain_seconds.decode)

    @property
    def unit(self) -> Unit:
        return self.repeat, self.question, self.cell

    @property
    def key(self) -> Hashable:
        return self.unit


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


def summary(points: Iterable[Point], grid: Grid) -> list[CellRow]:
    """A row for every cell that has points, in the order of the grid."""
    by_cell: dict[int, list[Point]] = {}
    for point in points:
        by_cell.setdefault(point.cell, []).append(point)
    return [
        row(cell.index, cell.coordinates, by_cell[cell.index])
        for cell in grid.cells
        if cell.index in by_cell
    ]


def row(cell: int, coordinates: tuple[Value, ...], points: Sequence[Point]) -> CellRow:
    """Return the row of a cell with its points."""
    measured = repeats(points)
    tokens = sum(p.tokens for p in points)
    passes = sum(p.passes for p in points)
    tested = sum(p.tested for p in points)
    compared = all(p.compared for p in points)
    differing = [p.difference for p in points if p.difference is not None]
    ties = sum(difference.tie for difference in differing)
    return CellRow(
        cell=cell,
        coordinates=coordinates,
        runs=len(points),
        tokens=tokens,
        tokens_per_second=measured.timed.method.tokens_per_second,
        plain_tokens_per_second=measured.timed.plain.tokens_per_second,
        speedup=measured.speedup.median,
        ci95=measured.ci95,
        acceptance_length=metrics.ratio(tokens, passes),
        acceptance_rate=sum(p.accepted for p in points) / tested if tested else None,
        draft_length=metrics.ratio(sum(p.depth_sum for p in points), passes),
        draft_cost=_draft_cost(points),
        equal=len(points) - len(differing) if compared else None,
        ties=ties if compared else None,
        differences=len(differing) - ties if compared else None,
        lossless=all(p.lossless for p in points),
        repeats=measured.speedup.each,
    )


def repeats(points: Iterable[Point]) -> Repeats:
    """Return the repeats of a cell; the one in the middle is the one whose runs to show."""
    return Repeats.of(
        TimedRun(p.repeat, p.question, TimedRound(plain=p.plain_timing, method=p.timing))
        for p in points
    )


def _draft_cost(points: Sequence[Point]) -> float | None:
    """c, as in `Summary.draft_cost`; None if no draft was checked by a target."""
    passes = sum(p.draft_passes for p in points if p.passes)
    plain = metrics.ratio(
        sum(p.plain_seconds.decode for p in points), sum(p.plain_tokens for p in points)
    )
    if not (passes and plain):
        return None
    return sum(p.seconds.draft for p in points if p.passes) / passes / plain


def best(rows: Sequence[CellRow]) -> CellRow | None:
    return max(rows, key=lambda row: (row.lossless, row.speedup), default=None)


def ideal(points: Iterable[Point], grid: Grid) -> list[Ideal]:
    """The ideal draft length for every combination of values on the axes other than gamma's.

    The theorem is about a chain that the draft model writes token by token; where a method has
    other proposals, they are part of alpha, and it is a guide. Empty for a method without gamma or
    without passes of a draft model.
    """
    setting = grid.kind.Hyperparameters.settings().get(GAMMA)
    if setting is None or setting.high is None:
        return []
    alike: dict[tuple[Value, ...], list[Point]] = {}
    for point in points:
        coordinates = zip(grid.axes, grid.cells[point.cell].coordinates, strict=True)
        alike.setdefault(
            tuple(value for axis, value in coordinates if axis.name != GAMMA), []
        ).append(point)
    lengths = []
    for others, runs in alike.items():
        tested = sum(p.tested for p in runs)
        cost = _draft_cost(runs)
        if tested and cost is not None:
            alpha = sum(p.accepted for p in runs) / tested
            lengths.append(
                Ideal(others, *metrics.ideal_gamma(alpha, cost, int(setting.high)), alpha, cost)
            )
    return lengths


def interval(row: CellRow) -> str:
    """` [low, high]`; empty for a single question, which has none."""
    low, high = row.ci95
    return f" [{low:.2f}, {high:.2f}]" if low < high else ""


def conclusions(
    rows: Sequence[CellRow], ideals: Sequence[Ideal], grid: Grid, repeats: int
) -> list[str]:
    """The best setting in words: as it was measured, and by theory; and how often that was.

    repeats: how many were asked for; fewer may be complete
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
    rest = [axis.name for axis in grid.axes if axis.name != GAMMA]
    for best_length in ideals:
        where = ", ".join(
            f"{axis}={show(value)}" for axis, value in zip(rest, best_length.others, strict=True)
        )
        slow = "" if best_length.speedup > 1 else ", so that none pays"
        at = f", at {where}" if where else ""
        measured = f"(alpha {best_length.alpha:.2f}, c {best_length.cost:.2f})"
        ideal = f"gamma {best_length.gamma}, {best_length.speedup:.2f}×"
        lines.append(f"By theory{at} {measured}: {ideal}{slow}.")
    return [*lines, about_spread(rows, repeats)]


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
    repeats = max(len(row.repeats) for row in rows)
    if repeats > 1:
        return f"In round brackets: the least and the largest speedup of {repeats} repeats."
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
