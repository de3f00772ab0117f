"""Lines of Markdown."""

from __future__ import annotations

import re
import textwrap


def item(text: str) -> str:
    """Return an item of a list in lines of at most 140 characters."""
    return wrapped(f"* {text}", "  ")


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 140, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def escaped(text: str) -> str:
    """Escape a text for a cell of a table."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", " ".join(text.split()))
