"""Progress bars for the terminal and for notebooks, and encodings of standard input and output.

A notebook's bar needs no ipywidgets and no script, unlike the bars of rich and tqdm.
"""

from __future__ import annotations

import codecs
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn

Update = Callable[[int, str], None]
"""A function of the number of finished parts and the name of the next part."""


@dataclass(frozen=True)
class Bar:
    """One state of a notebook's progress bar, which is empty at the end."""

    task: str
    done: int
    total: int
    doing: str

    def _repr_html_(self) -> str:
        if self.done >= self.total:
            return ""
        words = f"{self.task}: {self.done} of {self.total}, {self.doing}"
        return (
            f'<label><progress max="{self.total}" value="{self.done}"></progress> '
            f"{escape(words)}</label>"
        )

    def __repr__(self) -> str:
        return f"{self.task}: {self.done} of {self.total}"


def accept_any_text() -> None:
    """Let standard output and input carry any text, with any encoding of the terminal.

    Standard output writes a character that its encoding lacks as an escape, such as \\u2603, as
    standard error does. An ASCII standard input is read as UTF-8, which includes ASCII.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if (
        isinstance(sys.stdin, io.TextIOWrapper)
        and codecs.lookup(sys.stdin.encoding).name == "ascii"
    ):
        sys.stdin.reconfigure(encoding="utf-8")


def in_notebook() -> bool:
    """Return whether output goes to a notebook, and not to a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def columns() -> tuple[ProgressColumn, ...]:
    """Return the columns of a terminal's bar: words, bar, count, time."""
    from rich import progress as rich

    counted = rich.BarColumn(), rich.MofNCompleteColumn()
    timed = rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
    return (rich.TextColumn("{task.description}"), *counted, *timed)


@contextmanager
def progress_bar(task: str, total: int, console: Console | None = None) -> Iterator[Update]:
    """Show a progress bar during a long task, and yield a function that updates it.

    A measurement calls the function between its runs, outside their timing.

    console  the terminal, by default on standard error
    """
    if in_notebook():
        yield _notebook_bar(task, total)
        return
    from rich.console import Console
    from rich.markup import escape as literal
    from rich.progress import Progress

    with Progress(*columns(), console=console or Console(stderr=True), transient=True) as progress:
        number = progress.add_task(task, total=total)
        yield lambda done, doing: progress.update(
            number, completed=done, description=literal(f"{task}: {doing}")
        )


def _notebook_bar(task: str, total: int) -> Update:
    """Show a bar in the notebook; its last state is empty, so that only the result remains."""
    display: Any = importlib.import_module("IPython.display").display
    handle = display(Bar(task, 0, total, "getting ready"), display_id=True)
    return lambda done, doing: handle.update(Bar(task, done, total, doing))
