"""Measure methods and transformers' own decoding, interleaved, on prompts in Spec-Bench's format.

The baseline, plain decoding, always runs. With `accelerate launch --multi_gpu -m ouroboros_core
bench ...`, or torchrun, the questions are split over processes and GPUs, and merged.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.cli import measuring, options

if TYPE_CHECKING:
    from ouroboros_core.benchmark.entrants import Spec
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.report import Row
    from ouroboros_core.benchmark.store import Store
    from ouroboros_core.sampling import Sampling


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        metavar="LIST",
        help="with settings in brackets: ouroboros[gamma=6,warm=true] (default: all that can run)",
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="LIST",
        help="hf-greedy, hf-assisted, hf-prompt-lookup (default: none)",
    )
    parser.add_argument(
        "--turns",
        action="store_true",
        help="all turns of a question, after the baseline's answers (default: first)",
    )
    measuring.add(
        parser, "benchmark", own="the project's own 72", tokens=128, chart="a chart of the speedups"
    )
    options.add_sampling(parser)
    options.add_pair(parser)


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.benchmark import entrants

    sampling = options.read_sampling(arguments)
    specs = entrants.parse(arguments.methods or "", sampling)
    questions, count, repeats = measuring.read(arguments)
    _measure(arguments, sampling, specs, questions, count, repeats)


def _measure(
    arguments: argparse.Namespace,
    sampling: Sampling,
    specs: list[Spec],
    questions: list[Question],
    count: int,
    repeats: int,
) -> None:
    """Load the models, resume from what is stored, and report; the input has been checked."""
    mine, notes = measuring.begin(arguments)

    from ouroboros_core.benchmark import entrants, peers
    from ouroboros_core.benchmark.conditions import conditions
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import Settings
    from ouroboros_core.decoding.generation import lacking

    pair = options.load_pair(arguments)
    if arguments.methods is None:
        able = (
            m.id
            for m in methods.available().values()
            if lacking(pair, m, m.Hyperparameters()) is None
        )
        specs = entrants.parse(",".join(able), sampling)
    field = [*(entrants.MethodEntrant(pair, spec) for spec in specs)]
    rivals = peers.peers(entrants.split(arguments.peers), pair, sampling)
    settings = Settings(
        methods=[spec.text for spec in specs],
        peers=list(dict.fromkeys(rival.label for rival in rivals)),
        turns=arguments.turns,
        **conditions(pair, questions, sampling, count, repeats),
    )
    store = mine.open(settings, arguments.json, resume=arguments.resume)
    work = Runner(pair, [*field, *rivals], questions, store, mine)
    header = measuring.header(settings.environment, mine)
    steps = len(work.work), len(work.work) - len(work.left), work.run
    measuring.measure(
        arguments,
        store,
        mine,
        steps,
        lambda complete: _finish(arguments, store, header, complete),
        notes,
    )


def _finish(
    arguments: argparse.Namespace, store: Store, header: dict[str, Any], complete: bool
) -> None:
    """Table on standard output, and the files asked for."""
    from ouroboros_core.benchmark import report

    table = report.rows(store.measurements)
    measuring.save(store, {**header, "rows": [asdict(row) for row in table]}, complete)
    if arguments.csv:
        arguments.csv.write_text(report.to_csv(table))
    if arguments.figure:
        from visualize import record_figures

        record_figures.write_page(
            record_figures.speedups_by_group(table, measuring.machine(header)), arguments.figure
        )
    _print(table)
    for line in report.explanations(store.measurements):
        print(line)


def _print(table: list[Row]) -> None:
    from rich.table import Table

    from ouroboros_core.benchmark.report import OVERALL, equality

    console = measuring.output()
    shown = Table(title="overall")
    shown.add_column("method")
    for name in (
        "tokens/pass",
        "rows/token",
        "drafts/token",
        "tokens/s",
        "speedup [95%]",
        "over hf-greedy",
        "text",
        "MB",
    ):
        shown.add_column(name, justify="right")
    for row in table:
        if row.group == OVERALL:
            numbers = [
                row.tokens_per_pass,
                row.rows_per_token,
                row.draft_passes_per_token,
                row.tokens_per_second,
            ]
            shown_numbers = [f"{number:.2f}" if number else "–" for number in numbers]
            speedup = f"{row.speedup:.2f} [{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
            over = f"{row.speedup_hf:.2f}" if row.speedup_hf else "–"
            name = " ".join(filter(None, (row.method, f"({row.setting})" if row.setting else "")))
            cells = (*shown_numbers, speedup, over, equality(row), f"{row.peak_memory_mb:.0f}")
            shown.add_row(*map(measuring.literal, (name, *cells)))
    console.print(shown)
    groups = list(dict.fromkeys(row.group for row in table if row.group != OVERALL))
    by_group = Table(title="speedup by group")
    by_group.add_column("method")
    for group in groups:
        by_group.add_column(group, justify="right")
    cells_ = {(row.method, row.group): row for row in table}
    for method in dict.fromkeys(row.method for row in table):
        by_group.add_row(
            measuring.literal(method), *(f"{cells_[method, group].speedup:.2f}" for group in groups)
        )
    console.print(by_group)
