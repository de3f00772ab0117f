"""The page's long prose - lessons, questions, the gallery, introductions - in one file a language:
assets/words/en.json.

A key is a path with dots, a value a text with `{facts}` in str.format's style. OUROBOROS_LANGUAGE
chooses the file: a name in assets/words, or the path of a JSON file; what it lacks is said in
English. Labels and short messages stand in the code, beside what shows them.
"""

from __future__ import annotations

import json
import os
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from ouroboros_core.locations import assets

ENGLISH = "en"
MIRRORED = {"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"}
"""Classes of Unicode: letters from right to left, their digits, and what changes a direction."""


@cache
def table() -> dict[str, str]:
    """All texts of the chosen language by key."""
    folder = assets() / "words"
    chosen = os.environ.get("OUROBOROS_LANGUAGE", ENGLISH)
    file = Path(chosen) if chosen.endswith(".json") else folder / f"{chosen}.json"
    texts = _read(folder / f"{ENGLISH}.json")
    return texts | _read(file) if file.exists() else texts


def _read(file: Path) -> dict[str, str]:
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def say(key: str, **facts: Any) -> str:
    """The text of a key, its facts filled in."""
    return table()[key].format(**facts)


def isolated(text: str) -> str:
    """Return a text for a place inside a sentence: one with letters that run from right to left
    stands between two characters of Unicode, so that the words around it keep their order."""
    if {unicodedata.bidirectional(letter) for letter in text}.isdisjoint(MIRRORED):
        return text
    return f"\u2068{text}\u2069"


def counted(n: int, noun: str) -> str:
    """A number of things: '1 token', '2 tokens'."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def allowed(least: int, most: int, none: str) -> str:
    """A range of whole numbers, 'between 1 and 3' or '1'; `none`, which says what is lacking, where
    no number lies in it."""
    if least > most:
        return none
    return str(least) if least == most else f"between {least} and {most}"
