"""Every sentence of lessons, gallery and views in one file a language: assets/words/en.json.

A key is a path with dots, a value a text with `{facts}` in str.format's style. OUROBOROS_LANGUAGE chooses the file; what it
lacks is said in English.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from ouroboros_core.locations import assets

ENGLISH = "en"


@cache
def table() -> dict[str, str]:
    """All texts of the chosen language by key."""
    chosen = os.environ.get("OUROBOROS_LANGUAGE", ENGLISH)
    file = assets() / "words" / f"{chosen}.json"
    texts = _read(ENGLISH)
    return texts | _read(chosen) if chosen != ENGLISH and file.exists() else texts


def _read(language: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads((assets() / "words" / f"{language}.json").read_text(encoding="utf-8"))
    return texts


def say(key: str, **facts: Any) -> str:
    """The text of a key, its facts filled in."""
    return table()[key].format(**facts)


def under(*prefixes: str) -> dict[str, str]:
    """The texts whose keys begin so, for a script that fills them in itself."""
    return {key: text for key, text in table().items() if key.startswith(prefixes)}
