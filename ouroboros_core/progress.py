"""Says how far something long is: a bar in the terminal, and in a notebook one that needs neither
ipywidgets nor a script, which those of rich and tqdm do. Lets any text out, and UTF-8 in."""

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

Tell = Callable[[int, str], None]
"""Takes how much is done, and what comes next."""


@dataclass(frozen=True)
class Bar:
    """A moment of it, as a notebook shows it; nothing once all is done."""

    what: str
    done: int
    total: int
    doing: str

    def _repr_html_(self) -> str:
        if self.done >= self.total:
            return ""
        words = f"{self.what}: {self.done} of {self.total}, {self.doing}"
        return (
            f'<label><progress max="{self.total}" value="{self.done}"></progress> '
            f"{escape(words)}</label>"
        )

    def __repr__(self) -> str:
        return f"{self.what}: {self.done} of {self.total}"


def accept_any_text() -> None:
    """Let standard output and input carry any text, whatever the encoding of the terminal is.

    A character that standard output does not have is written as its escape, such as \\u2603, as
    standard error does it. Standard input that would be ASCII is UTF-8, of which ASCII is a part.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if (
        isinstance(sys.stdin, io.TextIOWrapper)
        and codecs.lookup(sys.stdin.encoding).name == "ascii"
    ):
        sys.stdin.reconfigure(encoding="utf-8")


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook, and not to a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def columns() -> tuple[ProgressColumn, ...]:
    """What a bar in the terminal has: words, bar, count, time."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )


@contextmanager
def following(what: str, total: int, console: Console | None = None) -> Iterator[Tell]:
    """A bar while something long is done, which is told between its parts: between the runs of a
    measurement, outside their clocks.

    console  of the terminal; standard error where it is left out
    """
    if in_notebook():
        yield _notebook(what, total)
        return
    from rich.console import Console
    from rich.markup import escape as literal
    from rich.progress import Progress

    with Progress(*columns(), console=console or Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done, doing: progress.update(
            task, completed=done, description=literal(f"{what}: {doing}")
        )


def _notebook(what: str, total: int) -> Tell:
    """The last display is empty: what remains in the notebook is the result."""
    display: Any = importlib.import_module("IPython.display").display
    shown = display(Bar(what, 0, total, "getting ready"), display_id=True)
    return lambda done, doing: shown.update(Bar(what, done, total, doing))
