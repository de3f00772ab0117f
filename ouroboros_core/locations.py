"""The folders of the project's own files and of its cache."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def assets() -> Path:
    """The `assets` folder: beside the package in a checkout, inside it when installed."""
    inside = _PACKAGE / "assets"
    return inside if inside.is_dir() else _PACKAGE.parent / "assets"


def cache_folder() -> Path:
    """`ouroboros` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ouroboros"
