"""The page's long prose - lessons, questions, gallery, introductions - from one file per language,
assets/words/en.json, and helpers for words in sentences.

A key is a path with dots, a value is a text with `{facts}` in the style of str.format.
OUROBOROS_LANGUAGE chooses the file: a name in assets/words, or the path of a JSON file. English
replaces texts that the file lacks. Labels and short messages are in the code that shows them.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ouroboros_core.locations import assets

ENGLISH = "en"
MIRRORED = {"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"}
"""Unicode classes of letters from right to left, their digits, and marks that change direction."""


@cache
def table() -> dict[str, str]:
    """Return all texts of the chosen language by key."""
    folder = assets() / "words"
    chosen = os.environ.get("OUROBOROS_LANGUAGE", ENGLISH)
    file = Path(chosen) if chosen.endswith(".json") else folder / f"{chosen}.json"
    texts = _read(folder / f"{ENGLISH}.json")
    return texts | _read(file) if file.exists() else texts


def _read(file: Path) -> dict[str, str]:
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def say(key: str, **facts: Any) -> str:
    """Return the text of a key with its facts filled in."""
    return table()[key].format(**facts)


def isolated(text: str) -> str:
    """Return a text for use inside a sentence. Two Unicode characters enclose a text with letters
    from right to left, so that the words around it keep their order."""
    if {unicodedata.bidirectional(letter) for letter in text}.isdisjoint(MIRRORED):
        return text
    return f"\u2068{text}\u2069"


def counted(n: int, noun: str) -> str:
    """Return a number and a noun: '1 token', '2 tokens'."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def allowed(low: int, high: int, none: str) -> str:
    """Return a range of integers, 'between 1 and 3' or '1', or the text `none` if it is empty."""
    if low > high:
        return none
    return str(low) if low == high else f"between {low} and {high}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns are as wide as their texts, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
