"""What the commands that measure share: their options, the progress bar, and what becomes of an
interrupted measurement."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.benchmark.store import R, Share, Store


LEFT_OUT = 3
"""The exit code of a measurement that is complete but for questions that could not run."""


def add(
    parser: argparse.ArgumentParser,
    what: str,
    *,
    own: str,
    tokens: int,
    chart: str,
    several: bool = False,
    repeats: int = 1,
) -> None:
    """Options for prompts, lengths and files of a measurement that is called `what`. several:
    whether more than one limit of new tokens can be given; repeats: how often each prompt is run
    where nothing is said."""
    parser.add_argument(
        "--prompts", metavar="FILE", type=Path, help=f"JSON lines, may be gzipped (default: {own})"
    )
    parser.add_argument(
        "--field", metavar="NAME", help="where a line has its prompt (default: found by itself)"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        help="so many questions, taken from the groups in turn (default: all)",
    )
    parser.add_argument(
        "--max-new-tokens",
        default=str(tokens),
        metavar="N,N" if several else "N",
        help=f"default: {tokens}"
        + ("; of several limits, as 32,128, each has its own table" if several else ""),
    )
    parser.add_argument(
        "--repeats",
        default=str(repeats),
        metavar="N",
        help=f"the median of so many counts (default: {repeats})",
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write everything there, on the way, too"
    )
    parser.add_argument("--csv", type=Path, metavar="OUT", help="write the rows there")
    parser.add_argument("--figure", type=Path, metavar="OUT.html", help=f"write {chart} there")
    parser.add_argument(
        "--resume", action="store_true", help=f"go on with the interrupted {what} in --json"
    )


def read(arguments: argparse.Namespace, own: int | None = None) -> tuple[list[Question], int, int]:
    """Questions, new tokens and repeats, all checked. own: so many of the project's own prompts
    where nothing is said."""
    from ouroboros_core.benchmark import prompts

    limit = None if arguments.limit is None else options.whole_number(arguments.limit, "limit", 1)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    repeats = options.whole_number(arguments.repeats, "repeats", 1)
    if arguments.resume and not arguments.json:
        raise InvalidInput("--resume goes on with what is in a file: name it with --json")
    for path in (arguments.json, arguments.csv, arguments.figure):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(f"the folder of {path} does not exist: make it first")
    if arguments.prompts:
        return (
            prompts.spread(prompts.read(arguments.prompts, arguments.field), limit),
            count,
            repeats,
        )
    return prompts.own_prompts(own if limit is None else limit), count, repeats


def limits(arguments: argparse.Namespace) -> list[int]:
    """The limits of new tokens that were given, the largest first, which alone remains in
    `arguments`; the smaller ones are counted on the same runs."""
    given = str(arguments.max_new_tokens).split(",")
    found = {options.whole_number(one.strip(), "max_new_tokens", 1) for one in given}
    arguments.max_new_tokens = str(max(found))
    return sorted(found, reverse=True)


def begin(arguments: argparse.Namespace) -> tuple[Share, Console]:
    """This process's share, its device taken over, and the console for notes, silent but in the
    main process."""
    import transformers

    from ouroboros_core.benchmark import store as stores

    # Assisted generation warns of its own arguments.
    transformers.utils.logging.set_verbosity_error()
    mine = stores.share(arguments.json)
    arguments.resume = arguments.resume or stores.restarted()
    if mine.device is not None and arguments.device == "auto":
        arguments.device = mine.device
    return mine, options.notes(quiet=not mine.main)


def header(environment: dict[str, Any], mine: Share) -> dict[str, Any]:
    """Command and environment, as they stand in the JSON."""
    command = shlex.join(["python", "-m", "ouroboros_core", *sys.argv[1:]])
    return {"command": command, "environment": {**environment, "processes": mine.count}}


def machine(header: dict[str, Any]) -> str:
    """A short description of the machine, for a figure."""
    facts = header["environment"]
    return f"{facts['processor']}, {facts['threads']} threads, {facts['dtype']}"


def measure(
    arguments: argparse.Namespace,
    store: Store[R],
    mine: Share,
    work: tuple[int, int, Callable[[Callable[[str], None]], Iterator[Any]]],
    finish: Callable[[bool], None],
    notes: Console,
) -> int:
    """Do what is left, then `finish`, told whether all is there; when interrupted, keep what is
    done and say how to go on. Returns the exit code: LEFT_OUT where a single process left something
    out; of several, a launcher would take that for a failure.

    work: units in all, units done, and what does the others one by one, telling a function what it
    is at
    """
    from ouroboros_core.benchmark import store as stores

    kind, (total, done, run) = store.settings.kind, work
    if store.complete:
        notes.print(f"{arguments.json} is complete: nothing is measured again")
    elif store.units:
        notes.print(f"going on after {len(store.units)} of {total} {kind.unit}s")
    elif arguments.json and arguments.json.exists() and not arguments.resume:
        notes.print(
            f"the finished {kind.name} in {arguments.json} will be replaced after the first "
            f"{kind.unit}"
        )
    whole = False
    try:
        _follow(store, total, done, run, notes)
        if mine.finishes():
            stores.gather(store)
            finish(True)
        whole = True
    except KeyboardInterrupt:
        kept = f"; {arguments.json} keeps them: --resume goes on" if arguments.json else ""
        notes.print(f"stopped after {len(store.units)} of {total} {kind.unit}s{kept}")
        if mine.main and store.measurements:
            finish(False)
        raise
    finally:
        mine.leave(done=whole)
    return LEFT_OUT if store.left_out and mine.count == 1 else 0


def check_rest(store: Store[R]) -> None:
    """Raise InvalidInput where there is no question that every method could run."""
    if store.left_out and not store.fair:
        raise InvalidInput(
            f"no question is left that all can run. {' '.join(store.lines)}. Leave out the method "
            "or the setting that cannot run them"
        )


def _follow(
    store: Store[R],
    total: int,
    done: int,
    run: Callable[[Callable[[str], None]], Iterator[Any]],
    notes: Console,
) -> None:
    from rich.progress import Progress

    from ouroboros_core.progress import columns

    kind = store.settings.kind
    with Progress(*columns(), console=notes, disable=notes.quiet) as progress:
        task = progress.add_task(kind.name, total=total, completed=done)
        for finished, _ in enumerate(
            run(lambda what: progress.update(task, description=what)), done + 1
        ):
            progress.advance(task)
            if not notes.is_terminal:
                notes.print(f"{finished} of {total} {kind.unit}s")
        progress.update(task, description="done")


def save(store: Store[R], mine: Share, report: dict[str, Any], complete: bool) -> None:
    """Write the file's last form; a measurement that was complete before keeps its command and
    date.

    The other processes' files go at once: whatever fails from here on, nobody merges them again.
    """
    from ouroboros_core.benchmark import store as stores

    hosts = sorted({host for run in store.measurements if (host := getattr(run, "host", ""))})
    if hosts:
        report = report | {"environment": {**report["environment"], "hosts": hosts}}
    if not store.complete:
        store.complete = complete
        store.save(report)
    if complete:
        stores.remove_parts(store.path, mine)


def output() -> Console:
    """Standard output for tables: as wide as they are where it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def literal(text: str) -> str:
    """Text that rich takes as it is."""
    return text.replace("[", r"\[")


def duration(seconds: float) -> str:
    """A duration in a suitable unit."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
