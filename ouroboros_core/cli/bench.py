"""Measure methods and transformers' own decoding, interleaved, on prompts in Spec-Bench's format.

The baseline, plain decoding, always runs. With `accelerate launch --multi_gpu -m ouroboros_core bench ...`, or torchrun, the
questions are split over processes and GPUs, and merged.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.benchmark.entrants import Spec
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.report import Row
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import Store
    from ouroboros_core.sampling import Sampling


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", metavar="FILE", type=Path, help="JSON lines, may be gzipped (default: the project's own 48)")
    parser.add_argument("--field", metavar="NAME", help="where a line has its prompt (default: found by itself)")
    parser.add_argument("--limit", metavar="N", help="so many questions, taken from the groups in turn (default: all)")
    parser.add_argument(
        "--methods", metavar="LIST", help="with knobs in brackets: ouroboros[gamma=6,warm=true] (default: all that can run)"
    )
    parser.add_argument("--peers", default="", metavar="LIST", help="hf-greedy, hf-assisted, hf-prompt-lookup (default: none)")
    parser.add_argument("--max-new-tokens", default="128", metavar="N", help="default: 128")
    parser.add_argument(
        "--turns", action="store_true", help="all turns of a question, after the baseline's answers (default: first)"
    )
    parser.add_argument("--repeats", default="1", metavar="N", help="the median of so many counts (default: 1)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write rows and runs there, after every question")
    parser.add_argument("--csv", type=Path, metavar="OUT", help="write the rows there")
    parser.add_argument("--figure", type=Path, metavar="OUT.html", help="write a chart of the speedups there")
    parser.add_argument("--resume", action="store_true", help="go on with the interrupted benchmark in --json")
    options.add_sampling(parser)
    options.add_pair(parser)


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.benchmark import entrants, prompts

    sampling = options.read_sampling(arguments)
    specs = entrants.parse(arguments.methods or "", sampling)
    limit = None if arguments.limit is None else options.whole_number(arguments.limit, "limit", 1)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    repeats = options.whole_number(arguments.repeats, "repeats", 1)
    if arguments.resume and not arguments.json:
        raise InvalidInput("--resume goes on with what is in a file: name it with --json")
    for path in (arguments.json, arguments.csv, arguments.figure):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(f"the folder of {path} does not exist: make it first")
    questions = prompts.read(arguments.prompts, arguments.field) if arguments.prompts else prompts.own_prompts()
    questions = prompts.spread(questions, limit)
    _measure(arguments, sampling, specs, questions, count, repeats)


def _measure(
    arguments: argparse.Namespace, sampling: Sampling, specs: list[Spec], questions: list[Question], count: int, repeats: int
) -> None:
    """Load the models, go on from what is stored, and report; everything about the input is known to be good."""
    import transformers
    from rich.console import Console

    from ouroboros_core.benchmark import entrants, peers, prompts
    from ouroboros_core.benchmark import store as stores
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.decoding.generation import lacking

    transformers.utils.logging.set_verbosity_error()  # assisted generation warns of its own arguments
    mine = stores.share()
    notes = Console(highlight=False, stderr=True, quiet=not mine.main)
    if mine.device is not None and arguments.device == "auto":
        arguments.device = mine.device
    pair = options.load_pair(arguments)
    if arguments.methods is None:
        able = (m.id for m in methods.available().values() if lacking(pair, m, m.Hyperparameters()) is None)
        specs = entrants.parse(",".join(able), sampling)
    field = [*(entrants.MethodEntrant(pair, spec) for spec in specs)]
    rivals = peers.peers(entrants.split(arguments.peers), pair, sampling)
    settings = stores.Settings(
        methods=[spec.text for spec in specs],
        peers=list(dict.fromkeys(rival.label for rival in rivals)),
        prompts=prompts.digest(questions),
        questions=len(questions),
        max_new_tokens=count,
        sampling=sampling.model_dump(),
        turns=arguments.turns,
        repeats=repeats,
        target=pair.target.name,
        draft=pair.draft.name if pair.draft else None,
        environment=asdict(pair.environment),
    )
    store = mine.open(settings, arguments.json, resume=arguments.resume)
    work = Runner(pair, [*field, *rivals], questions, store, mine)
    _say_where_it_stands(arguments, store, work, notes)
    report: dict[str, Any] = {"command": _command(), "environment": {**settings.environment, "processes": mine.count}}
    try:
        _work(work, notes)
    except KeyboardInterrupt:
        kept = f"; {arguments.json} keeps them: --resume goes on" if arguments.json else ""
        notes.print(f"stopped after {len(store.units)} of {len(work.work)} questions{kept}")
        if mine.main and store.measurements:
            _finish(arguments, store, report)
        raise
    stores.gather(store, mine)
    if mine.main:
        _finish(arguments, store, report, complete=True)
        stores.remove_parts(arguments.json, mine)


def _say_where_it_stands(arguments: argparse.Namespace, store: Store, work: Runner, notes: Console) -> None:
    if store.complete:
        notes.print(f"{arguments.json} is complete: nothing is measured again")
    elif store.units:
        notes.print(f"going on after {len(store.units)} of {len(work.work)} questions")
    elif arguments.json and arguments.json.exists() and not arguments.resume:
        notes.print(f"the finished benchmark in {arguments.json} will be replaced after the first question")


def _command() -> str:
    return shlex.join(["python", "-m", "ouroboros_core", *sys.argv[1:]])


def _work(work: Runner, notes: Console) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=notes, disable=notes.quiet) as progress:
        task = progress.add_task("benchmark", total=len(work.work), completed=len(work.work) - len(work.left))
        for _ in work.run(lambda what: progress.update(task, description=what)):
            progress.advance(task)
            if not notes.is_terminal:
                notes.print(f"{len(work.work) - len(work.left)} of {len(work.work)} questions")
        progress.update(task, description="done")


def _finish(arguments: argparse.Namespace, store: Store, report: dict[str, Any], *, complete: bool = False) -> None:
    """Table on standard output, and the files asked for; one that was complete before keeps its command and date."""
    from ouroboros_core.benchmark import report as reports

    table = reports.rows(store.measurements)
    if not store.complete:
        store.complete = complete
        store.save({**report, "rows": [asdict(row) for row in table]})
    if arguments.csv:
        arguments.csv.write_text(reports.to_csv(table))
    if arguments.figure:
        _write_figure(arguments.figure, table, report)
    _print(table)
    for line in reports.explanations(store.measurements):
        print(line)


def _write_figure(path: Path, table: list[Row], report: dict[str, Any]) -> None:
    from visualize import record_figures

    facts = report["environment"]
    note = f"{facts['processor']}, {facts['threads']} threads, {facts['dtype']}"
    record_figures.write_page(record_figures.speedups_by_group(table, note), path)


def _print(table: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    from ouroboros_core.benchmark.report import OVERALL, equality

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    shown = Table(title="overall")
    shown.add_column("method")
    for name in ("tokens/pass", "rows/token", "drafts/token", "tokens/s", "speedup [95%]", "over hf-greedy", "text", "MB"):
        shown.add_column(name, justify="right")
    for row in table:
        if row.group == OVERALL:
            numbers = [row.tokens_per_pass, row.rows_per_token, row.draft_passes_per_token, row.tokens_per_second]
            shown_numbers = [f"{number:.2f}" if number else "–" for number in numbers]
            speedup = f"{row.speedup:.2f} [{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
            over = f"{row.speedup_hf:.2f}" if row.speedup_hf else "–"
            name = " ".join(filter(None, (row.method, f"({row.setting})" if row.setting else "")))
            cells = (*shown_numbers, speedup, over, equality(row), f"{row.peak_memory_mb:.0f}")
            shown.add_row(name.replace("[", r"\["), *(cell.replace("[", r"\[") for cell in cells))
    console.print(shown)
    groups = list(dict.fromkeys(row.group for row in table if row.group != OVERALL))
    by_group = Table(title="speedup by group")
    by_group.add_column("method")
    for group in groups:
        by_group.add_column(group, justify="right")
    cells_ = {(row.method, row.group): row for row in table}
    for method in dict.fromkeys(row.method for row in table):
        by_group.add_row(method.replace("[", r"\["), *(f"{cells_[method, group].speedup:.2f}" for group in groups))
    console.print(by_group)
