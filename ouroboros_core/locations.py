"""The folders of the project's own files and of its cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def assets() -> Path:
    """Return the `assets` folder: beside the package in a checkout, inside it when installed."""
    inside = _PACKAGE / "assets"
    return inside if inside.is_dir() else _PACKAGE.parent / "assets"


def cache_folder() -> Path:
    """Return the folder `ouroboros` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ouroboros"


def as_utf8(text: str) -> str:
    """Return an argument or a file name as readable text.

    If the locale's encoding is ASCII, Python represents each byte of other characters by a lone
    surrogate. These become the character that the bytes encode in UTF-8, or U+FFFD.
    """
    return re.sub(
        "[\udc80-\udcff]+",
        lambda match: match[0].encode(errors="surrogateescape").decode(errors="replace"),
        text,
    )
