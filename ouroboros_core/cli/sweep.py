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
from ouroboros_core.sweeps.grid import QUESTIONS, TOKENS, Grid, read_axis

if TYPE_CHECKING:
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import Store


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
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.sweeps.sweep import seconds_left

    axes = tuple(read_axis(text) for text in arguments.grid)
    grid = Grid.read(arguments.method, axes, arguments.settings, options.read_sampling(arguments))
    questions, count, repeats = measuring.read(arguments, QUESTIONS)
    notes = options.notes()
    build = partial(_build, arguments, grid, questions, count, repeats)
    work = measuring.open_work(arguments, build, notes)
    left = work.total - work.done
    if left and isinstance(work, Runner):
        notes.print(
            f"{left * len(grid.cells)} runs of up to {count} tokens, and plain decoding beside "
            f"them: {measuring.duration(seconds_left(work))} if all were as fast as plain decoding"
        )
    header = measuring.header(work)
    return measuring.measure(
        arguments,
        work,
        lambda complete: _finish(arguments, grid, work.store, header, complete),
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
) -> Runner:
    """Load the models and open the store; the input has been checked."""
    from ouroboros_core.sweeps.sweep import open_sweep

    pair = options.load_pair(arguments)
    return open_sweep(pair, grid, questions, repeats, count, path, resume=resume)


def _finish(
    arguments: argparse.Namespace,
    grid: Grid,
    store: Store,
    header: dict[str, Any],
    complete: bool,
) -> None:
    from ouroboros_core.sweeps import cells
    from ouroboros_core.sweeps.call import SweepResult

    result = SweepResult.of(grid, store)
    rows, ideals = result.rows, result.ideals
    report = {
        **header,
        "rows": [asdict(row) for row in rows],
        "ideal": [asdict(length) for length in ideals],
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
    print(result.text)
