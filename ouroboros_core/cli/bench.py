"""Measure methods and transformers' own decoding, interleaved, on prompts in Spec-Bench's format.

The baseline, plain decoding, always runs. With --cluster the GPUs of one machine or of several
share the questions.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark import entrants
from ouroboros_core.cli import measuring, options
from ouroboros_core.decoding.generation import lacking
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling

if TYPE_CHECKING:
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.report import Row
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import Store

OVERALL_COLUMNS = (
    *("tokens/pass", "rows/token", "drafts/token", "first token, s", "tokens/s", "decoding only"),
    *("speedup [95%]", "decoding only", "over hf-greedy", "decoding only", "text", "MB"),
)
"""Of the table over all prompts, behind the method's name."""


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
        help="hf-greedy, hf-assisted, hf-prompt-lookup; llama.cpp, or llama.cpp[file=TARGET.gguf] "
        "(default: none)",
    )
    parser.add_argument(
        "--turns",
        action="store_true",
        help="all turns of a question, after the baseline's answers (default: first)",
    )
    measuring.add(
        parser,
        "benchmark",
        own_prompts="the project's own 72",
        tokens=128,
        chart="a chart of the speedups over all prompts",
        several_limits=True,
    )
    options.add_sampling(parser)
    options.add_pair(parser)


def run(arguments: argparse.Namespace) -> int:
    import transformers

    transformers.utils.logging.set_verbosity_error()  # assisted generation warns of its arguments
    sampling = options.read_sampling(arguments)
    specs = entrants.parse(arguments.methods or "", sampling)
    if arguments.cluster and any(spec.warm for spec in specs):
        raise InvalidInput(
            "a method with warm=true learns from prompt to prompt in one process: leave --cluster "
            "out, or measure it without warm=true"
        )
    limits = measuring.limits(arguments)
    questions, _, repeats = measuring.read(arguments)
    notes = options.notes()
    build = partial(_build, arguments, sampling, specs, questions, limits, repeats)
    work = measuring.open_work(arguments, build, notes)
    header = measuring.header(work)
    return measuring.measure(
        arguments, work, lambda complete: _finish(arguments, work.store, header, complete), notes
    )


def _build(
    arguments: argparse.Namespace,
    sampling: Sampling,
    specs: list[entrants.Spec],
    questions: list[Question],
    limits: list[int],
    repeats: int,
    path: Path | None,
    resume: bool,
) -> Runner:
    """Load the models and open the store; the input has been checked."""
    from ouroboros_core.benchmark import peers
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import BenchSettings, Store

    pair = options.load_pair(arguments)
    if arguments.methods is None:
        able = (
            m.id
            for m in methods.available().values()
            if lacking(pair, m, m.Hyperparameters()) is None
        )
        specs = entrants.parse(",".join(able), sampling)
    own_methods = [entrants.MethodEntrant(pair, spec) for spec in specs]
    rivals = peers.peers(entrants.split(arguments.peers), pair, sampling)
    settings = BenchSettings.of(
        pair,
        questions,
        sampling,
        max_new_tokens=limits[0],
        repeats=repeats,
        methods=[spec.text for spec in specs],
        peers=list(dict.fromkeys(rival.label for rival in rivals)),
        turns=arguments.turns,
        shorter=limits[1:],
    )
    store = Store.open(settings, path, resume=resume)
    return Runner(pair, [*own_methods, *rivals], questions, store)


def _finish(
    arguments: argparse.Namespace, store: Store, header: dict[str, Any], complete: bool
) -> None:
    from ouroboros_core.benchmark import report

    runs = store.fair
    table = report.rows(runs)
    tables = {
        limit: report.rows([run.within(limit) for run in runs]) for limit in store.settings.shorter
    }
    table_rows = {"rows": [asdict(row) for row in table]}
    short = {str(n): [asdict(row) for row in rows] for n, rows in tables.items()}
    contents = {**header, **table_rows, **({"shorter": short} if short else {})}
    measuring.save(store, contents, complete)
    measuring.check_rest(store)
    if arguments.csv:
        arguments.csv.write_text(report.to_csv(table), encoding="utf-8")
    if arguments.figure:
        from visualize.kit.plots import write_page
        from visualize.results import data, figures

        bars = data.bars([row for row in table if row.group == report.OVERALL])
        write_page(figures.page(bars, measuring.machine(header)), arguments.figure)
    for limit, rows in sorted({**tables, store.settings.max_new_tokens: table}.items()):
        _print(rows, limit)
    for line in (*header.get("remarks", ()), *report.explanations(runs), *store.lines):
        print(line)


def _print(table: list[Row], limit: int) -> None:
    from rich.table import Table

    from ouroboros_core.benchmark import report

    console = measuring.output()
    plain = report.baselines(table).get(report.OVERALL)
    overall = Table(title=f"overall, {limit} new tokens at most")
    overall.add_column("method")
    for name in OVERALL_COLUMNS:
        overall.add_column(name, justify="right")
    for row in table:
        if row.group == report.OVERALL:
            overall.add_row(*map(measuring.literal, _cells(row, plain)))
    console.print(overall)
    groups = list(dict.fromkeys(row.group for row in table if row.group != report.OVERALL))
    by_group = Table(title="speedup by group: prefill included / decoding only")
    by_group.add_column("method")
    for group in groups:
        by_group.add_column(group, justify="right")
    by_key = {(row.method, row.group): row for row in table}
    for method in dict.fromkeys(row.method for row in table):
        cells = (report.both_speedups(by_key[method, group]) for group in groups)
        by_group.add_row(measuring.literal(method), *cells)
    console.print(by_group)
    print(report.loops(table))


def _cells(row: Row, plain: Row | None) -> list[str]:
    from ouroboros_core.benchmark.report import equality, shown, speeds

    counts = row.tokens_per_pass, row.rows_per_token, row.draft_passes_per_token
    low, high = row.ci95
    over = row.decode_speedup, row.speedup_hf, row.decode_speedup_hf
    return [
        f"{row.method} ({row.setting})" if row.setting else row.method,
        *map(shown, (*counts, row.first_token_seconds)),
        speeds(row, plain),
        shown(row.decode_tokens_per_second),
        f"{row.speedup:.2f} [{low:.2f}, {high:.2f}]",
        *map(shown, over),
        equality(row),
        f"{row.peak_memory_mb:.0f}" if row.peak_memory_mb else "–",
    ]
