"""The view of a sweep: its table, its charts, its files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from visualize.kit import labels
from visualize.run.view import View
from visualize.sweep import figures as sweep_figures
from visualize.sweep.job import SweepResults
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from ouroboros_core.sweeps.cells import CellRow
    from ouroboros_core.sweeps.grid import Grid

HEAD = ("tokens per pass", "acceptance rate", "tokens/s", "speedup", "text")


def measured(swept: SweepResults) -> View:
    """Return the table and the conclusions of all runs so far."""
    from ouroboros_core.sweeps import cells

    sweep = swept.sweep
    grid = sweep.grid
    rows, ideals = cells.summary(sweep.points, grid), cells.ideal(sweep.points, grid)
    fastest = cells.best(rows)
    return {
        "done": sweep.done,
        "total": sweep.total,
        "left": sweep.seconds_left,
        "lines": [
            *cells.conclusions(rows, ideals, grid, sweep.settings.repeats),
            *sweep.store.lines,
        ],
        "head": [*(labels.named(axis.name) for axis in grid.axes), *HEAD],
        "rows": [_row(row, grid, row is fastest) for row in rows],
        "finished": sweep.done == sweep.total,
    }


def _rows(swept: SweepResults) -> Sequence[CellRow]:
    """Return the cells that were measured."""
    from ouroboros_core.sweeps import cells

    return cells.summary(swept.sweep.points, swept.sweep.grid)


def _row(row: CellRow, grid: Grid, best: bool) -> dict[str, Any]:
    from ouroboros_core.benchmark.report import equality
    from ouroboros_core.sweeps.cells import interval
    from ouroboros_core.sweeps.grid import show

    rate = "–" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}"
    speedup = f"{row.speedup:.2f}×{interval(row)}{row.between}"
    numbers = [
        f"{row.acceptance_length:.2f}",
        rate,
        row.speeds,
        speedup,
        equality(row),
    ]
    texts = [*map(show, row.coordinates), *numbers]
    return {
        "cell": row.cell,
        "name": grid.describe(row.coordinates),
        "texts": texts,
        "best": best,
    }


def picture(swept: SweepResults) -> View:
    """Return the heatmap or line on the chosen clock; theory uses costs measured here."""
    from ouroboros_core.sweeps import cells

    rows, grid = _rows(swept), swept.sweep.grid
    axes = grid.axes
    draw = sweep_figures.heatmap if len(axes) == 2 else sweep_figures.line
    if not swept.clock:
        return _figure(draw(rows, axes, cells.ideal(swept.sweep.points, grid)))
    rows = what_if_view.modelled_rows(rows, swept.priced, swept.clock)
    return _figure(draw(rows, axes, quantity="modelled speedup"))


def note(swept: SweepResults) -> str:
    """Return where the best cell is on the chosen clock; '' for this machine's clock."""
    if not swept.clock:
        return ""
    rows = _rows(swept)
    modelled = what_if_view.modelled_rows(rows, swept.priced, swept.clock)
    return what_if_view.best_elsewhere(modelled, rows, swept.sweep.grid, swept.clock)


def left_out(swept: SweepResults) -> str:
    """Return a sentence, after a space, on generation settings of the checkpoint; '' if none."""
    from ouroboros_core.benchmark import entrants

    remark = entrants.left_out(swept.sweep.pair)
    return f" {remark[0].upper()}{remark[1:]}." if remark else ""


def parallel(swept: SweepResults) -> View:
    """Return every cell as a line through its settings and results."""
    rows = _rows(swept)
    return _figure(sweep_figures.parallel(rows, swept.sweep.grid.axes))


def _figure(figure: Any) -> View:
    return {"seq": time.time_ns(), "run": "", "figure": figure}


def file_of(swept: SweepResults, kind: str) -> dict[str, Any]:
    """Return a file of all runs so far, csv or else json."""
    from ouroboros_core.sweeps import cells

    sweep = swept.sweep
    rows, ideals = _rows(swept), cells.ideal(sweep.points, sweep.grid)
    name = f"sweep-{sweep.grid.method}"
    if kind == "csv":
        text = cells.to_csv(rows, sweep.grid.axes)
        return {"seq": time.time_ns(), "name": f"{name}.csv", "type": "text/csv", "text": text}
    report = {
        "rows": [asdict(row) for row in rows],
        "ideal": [asdict(ideal) for ideal in ideals],
    }
    text = sweep.store.text(report)
    return {
        "seq": time.time_ns(),
        "name": f"{name}.json",
        "type": "application/json",
        "text": text,
    }
