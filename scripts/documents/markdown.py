"""Lines of Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable


def item(text: str) -> str:
    """Return an item of a list in lines of at most 140 characters."""
    return wrapped(f"* {text}", "  ")


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 140, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table with its last line break; a head with a colon is that of numbers."""
    names = heads.split(" | ")
    marks = "".join("---:|" if name.endswith(":") else "---|" for name in names)
    lines = [f"| {' | '.join(row)} |" for row in ([name.rstrip(":") for name in names], *rows)]
    return "\n".join([lines[0], f"|{marks}", *lines[1:], ""])


def escaped(text: str) -> str:
    """Escape a text for a cell of a table."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", " ".join(text.split()))
