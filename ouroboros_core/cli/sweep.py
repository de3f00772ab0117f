"""Vary one or two settings of a method, the sampling or the draft model, and find the
fastest setting.

Every setting runs on the same prompts as plain decoding does, alternately. With --cluster the GPUs
of one machine or of several share the prompts.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.cli import measuring, options
from ouroboros_core.sweeps.grid import QUESTIONS, TOKENS, Grid, read_axis, show

if TYPE_CHECKING:
    from ouroboros_core.benchmark.cluster import Cluster, Work
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.sweeps.cells import CellRow, Point
    from ouroboros_core.sweeps.sweep import Sweep


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        default=methods.DEFAULT,
        metavar="ID",
        help=(
            f"{', '.join(methods.available())} (default: {methods.DEFAULT}); lookahead[published] "
            "begins with the settings of its paper"
        ),
    )
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help=(
            "what is varied, once or twice: gamma=2,4,6 or gamma=2:8:2, a setting of the sampling, "
            "draft=FOLDER,none"
        ),
    )
    parser.add_argument(
        "--settings",
        default="",
        metavar="LIST",
        help="settings that are not varied: top_k_suffixes=3,ngram_size=4",
    )
    earlier = argparse.SUPPRESS  # the flag's name in 0.2.0
    parser.add_argument("--knobs", dest="settings", default=earlier, help=earlier)
    own_prompts = f"{QUESTIONS} of the project's own"
    chart = "charts of all settings"
    measuring.add(
        parser, "sweep", own_prompts=own_prompts, tokens=TOKENS, chart=chart, repeats=ROUNDS
    )
    options.add_sampling(parser)
    options.add_pair(parser)


def run(arguments: argparse.Namespace) -> int:
    axes = tuple(read_axis(text) for text in arguments.grid)
    grid = Grid.read(arguments.method, axes, arguments.settings, options.read_sampling(arguments))
    questions, count, repeats = measuring.read(arguments, QUESTIONS)
    notes = options.notes()
    build = partial(_build, arguments, grid, questions, count, repeats)
    work = measuring.open_work(arguments, build, notes)
    left = work.total - work.done
    if left and not arguments.cluster:
        seconds = getattr(work, "seconds_left", 0.0)
        notes.print(
            f"{left} runs of up to {count} tokens, and plain decoding beside them: "
            f"{measuring.duration(seconds)} if all were as fast as plain decoding"
        )
    header = measuring.header(work)
    return measuring.measure(
        arguments,
        work,
        lambda complete: _finish(arguments, grid, work, repeats, header, complete),
        notes,
    )


def _build(
    arguments: argparse.Namespace,
    grid: Grid,
    questions: list[Question],
    count: int,
    repeats: int,
    path: Path | None,
    resume: bool,
) -> Sweep:
    """Load the models and open the store; the input has been checked."""
    from ouroboros_core.sweeps.sweep import Sweep

    pair = options.load_pair(arguments)
    return Sweep(pair, grid, questions, repeats, count, path, resume=resume)


def _finish(
    arguments: argparse.Namespace,
    grid: Grid,
    work: Work[Point] | Cluster[Point],
    repeats: int,
    header: dict[str, Any],
    complete: bool,
) -> None:
    from ouroboros_core.sweeps import cells

    store = work.store
    rows, ideals = cells.summary(store.fair, grid), cells.ideal(store.fair, grid)
    report = {
        **header,
        "rows": [asdict(row) for row in rows],
        "ideal": [asdict(found) for found in ideals],
    }
    measuring.save(store, report, complete)
    measuring.check_rest(store)
    if arguments.csv:
        arguments.csv.write_text(cells.to_csv(rows, grid.axes), encoding="utf-8")
    if arguments.figure:
        from visualize.compare import figures
        from visualize.kit.plots import write_page

        page = figures.page(rows, grid.axes, ideals, f"{grid.label}: {measuring.machine(header)}")
        write_page(page, arguments.figure)
    if len(grid.axes) == 2:
        _print_grid(rows, grid)
    else:
        _print_list(rows, grid)
    for line in (*cells.conclusions(rows, ideals, grid, repeats), *store.lines):
        print(line)


def _print_list(rows: list[CellRow], grid: Grid) -> None:
    from rich.table import Table

    from ouroboros_core.benchmark.report import equality
    from ouroboros_core.sweeps import cells

    table = Table(title=measuring.literal(grid.label))
    table.add_column(grid.axes[0].name)
    for name in ("tokens/pass", "accepted", "draft cost c", "tokens/s", "speedup [95%]", "text"):
        table.add_column(name, justify="right")
    for row in rows:
        rate = f"{row.acceptance_rate:.0%}" if row.acceptance_rate is not None else "–"
        cost = f"{row.draft_cost:.2f}" if row.draft_cost is not None else "–"
        length = f"{row.acceptance_length:.2f}" if row.acceptance_length else "–"
        speedup = f"{row.speedup:.2f}x{cells.interval(row)}{row.between}"
        texts = (show(row.coordinates[0]), length, rate, cost, row.speeds, speedup, equality(row))
        table.add_row(*map(measuring.literal, texts))
    measuring.output().print(table)


def _print_grid(rows: list[CellRow], grid: Grid) -> None:
    """Print each cell's speedup and acceptance length; the fastest is starred."""
    from rich.table import Table

    from ouroboros_core.sweeps import cells

    down, across = grid.axes
    fastest, by_coordinates = cells.best(rows), {row.coordinates: row for row in rows}
    table = Table(
        title=measuring.literal(f"{grid.label}: speedup over plain decoding, and tokens per pass")
    )
    table.add_column(f"{down.name} \\ {across.name}")
    for value in across.values:
        table.add_column(measuring.literal(show(value)), justify="right")
    for value in down.values:
        row_cells = [by_coordinates.get((value, other)) for other in across.values]
        table.add_row(measuring.literal(show(value)), *(_cell(row, fastest) for row in row_cells))
    measuring.output().print(table)


def _cell(row: CellRow | None, fastest: CellRow | None) -> str:
    if row is None:
        return "–"
    wrong = f" {row.differences} DIFFER" if row.differences else ""
    return f"{'* ' if row is fastest else ''}{row.speedup:.2f}x {row.acceptance_length:.2f}{wrong}"
