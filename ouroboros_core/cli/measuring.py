"""Parts that `bench` and `sweep` share: options, progress bar, and interrupted measurements."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.benchmark.cluster import Build, Cluster
    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.runner import Runner
    from ouroboros_core.benchmark.store import Store


LEFT_OUT = 3
"""The exit code of a complete measurement that had to leave out questions."""
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Environment variables in which launchers give the number of processes."""


def add(
    parser: argparse.ArgumentParser,
    name: str,
    *,
    own_prompts: str,
    tokens: int,
    chart: str,
    several_limits: bool = False,
    repeats: int = 1,
) -> None:
    """Add the options for prompts, lengths and files of a measurement.

    own_prompts     describes the prompts that are measured without --prompts
    several_limits  whether several limits of new tokens can be given
    """
    option = parser.add_argument
    option(
        "--prompts",
        metavar="FILE",
        type=Path,
        help=f"JSON lines, may be gzipped (default: {own_prompts})",
    )
    option("--field", metavar="NAME", help="where a line has its prompt (default: found by itself)")
    option("--limit", metavar="N", help="number of questions, from all groups alike (default: all)")
    option(
        "--max-new-tokens",
        default=str(tokens),
        metavar="N,N" if several_limits else "N",
        help=f"default: {tokens}"
        + ("; each of several limits, as in 32,128, has its own table" if several_limits else ""),
    )
    option(
        "--repeats",
        default=str(repeats),
        metavar="N",
        help=f"runs of each prompt, of which the median counts (default: {repeats})",
    )
    option("--json", type=Path, metavar="OUT", help="write all results there, after every unit")
    option("--csv", type=Path, metavar="OUT", help="write the rows there")
    option("--figure", type=Path, metavar="OUT.html", help=f"write {chart} there")
    option("--resume", action="store_true", help=f"continue the interrupted {name} in --json")
    option(
        "--cluster",
        metavar="ADDRESS",
        help=(
            "share the prompts among the GPUs of a Ray cluster; auto: the cluster that runs here, "
            "or all GPUs of this machine (pip install 'ouroboros-core[cluster]')"
        ),
    )


def read(
    arguments: argparse.Namespace, own_prompts: int | None = None
) -> tuple[list[Question], int, int]:
    """Return questions, new tokens and repeats, all checked.

    own_prompts  number of the project's own prompts that are measured without --prompts
    """
    from ouroboros_core.benchmark import prompts

    limit = None if arguments.limit is None else options.whole_number(arguments.limit, "limit", 1)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    repeats = options.whole_number(arguments.repeats, "repeats", 1)
    if arguments.resume and not arguments.json:
        raise InvalidInput("--resume continues with the results in a file: name it with --json")
    for path in (arguments.json, arguments.csv, arguments.figure):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(f"the folder of {path} does not exist: make it first")
    if arguments.prompts:
        questions = prompts.read(arguments.prompts, arguments.field)
        return prompts.spread(questions, limit), count, repeats
    return prompts.own_prompts(own_prompts if limit is None else limit), count, repeats


def limits(arguments: argparse.Namespace) -> list[int]:
    """Return the limits of new tokens, the largest first.

    Only the largest remains in `arguments`; the smaller ones are counted on the same runs.
    """
    texts = str(arguments.max_new_tokens).split(",")
    counts = {options.whole_number(text.strip(), "max_new_tokens", 1) for text in texts}
    arguments.max_new_tokens = str(max(counts))
    return sorted(counts, reverse=True)


def open_work(arguments: argparse.Namespace, build: Build, notes: Console) -> Runner | Cluster:
    """Load the models here or on the workers of a cluster, and print the notes about them."""
    counts = [os.environ.get(name, "").strip() for name in SIZES]
    if any(count.isascii() and count.isdigit() and int(count) > 1 for count in counts):
        raise InvalidInput(
            f"a launcher has started several processes of {arguments.command}: start it once, and "
            "share the work with --cluster auto"
        )
    from ouroboros_core.benchmark.cluster import Cluster

    work: Runner | Cluster
    if arguments.cluster:
        work = Cluster(arguments.cluster, build, arguments.json, arguments.resume)
    else:
        work = build(arguments.json, arguments.resume)
    for note in work.notes:
        notes.print(note, markup=False)
    return work


def header(work: Runner | Cluster) -> dict[str, Any]:
    """Return command and environment for the JSON."""
    command = shlex.join(["python", "-m", "ouroboros_core", *sys.argv[1:]])
    facts = {**work.store.settings.environment}
    facts["processes"] = getattr(work, "count", 1)
    return {
        "command": command,
        "environment": facts,
        **({"remarks": work.remarks} if work.remarks else {}),
    }


def machine(header: dict[str, Any]) -> str:
    """Return a short description of the machine, for a figure."""
    facts = header["environment"]
    return f"{facts['processor']}, {facts['threads']} threads, {facts['dtype']}"


def measure(
    arguments: argparse.Namespace,
    work: Runner | Cluster,
    finish: Callable[[bool], None],
    notes: Console,
) -> int:
    """Run the tasks that are left, then call `finish` with whether the store is complete.

    After an interruption the results are kept, and a note says how to continue. Returns the exit
    code: LEFT_OUT if questions were left out.
    """
    from ouroboros_core.benchmark.cluster import Cluster

    store, name = work.store, work.store.settings.name
    if store.complete:
        notes.print(f"{arguments.json} is complete: nothing is measured again")
    elif store.units:
        notes.print(f"continuing after {len(store.units)} of {work.total} questions")
    elif arguments.json and arguments.json.exists() and not arguments.resume:
        notes.print(
            f"the finished {name} in {arguments.json} will be replaced after the first question"
        )
    try:
        _run(work, notes)
        finish(True)
    except KeyboardInterrupt:
        resume = f"; {arguments.json} keeps them: --resume continues" if arguments.json else ""
        notes.print(f"stopped after {len(store.units)} of {work.total} questions{resume}")
        if store.measurements:
            finish(False)
        raise
    finally:
        if isinstance(work, Cluster):
            work.close()
    return LEFT_OUT if store.left_out else 0


def check_rest(store: Store) -> None:
    """Raise InvalidInput if there is no question that every method can run."""
    if store.left_out and not store.fair:
        raise InvalidInput(
            f"no question is left that all can run. {' '.join(store.lines)}. Leave out the method "
            "or the setting that cannot run them"
        )


def _run(work: Runner | Cluster, notes: Console) -> None:
    from rich.progress import Progress

    from ouroboros_core.progress import columns

    total, done = work.total, work.done
    with Progress(*columns(), console=notes, disable=notes.quiet) as progress:
        task = progress.add_task(work.store.settings.name, total=total, completed=done)
        units = work.run(lambda doing: progress.update(task, description=literal(doing)))
        for finished, _ in enumerate(units, done + 1):
            progress.advance(task)
            if not notes.is_terminal:
                notes.print(f"{finished} of {total} questions")
        progress.update(task, description="done")


def save(store: Store, report: dict[str, Any], complete: bool) -> None:
    """Write the final form of the file; a measurement that was complete keeps its command."""
    hosts = sorted({run.host for run in store.measurements if run.host})
    if hosts:
        report = report | {"environment": {**report["environment"], "hosts": hosts}}
    if not store.complete:
        store.complete = complete
        store.save(report)


def output() -> Console:
    """Return standard output for tables; outside a terminal it is wide enough for them."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def literal(text: str) -> str:
    return text.replace("[", r"\[")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
