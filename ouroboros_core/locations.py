"""Folders of the project's own files and of its cache, and a way to write files."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ouroboros_core.errors import InvalidInput

_PACKAGE = Path(__file__).resolve().parent


def assets() -> Path:
    """Return the `assets` folder: beside the package in a checkout, inside it when installed."""
    inside = _PACKAGE / "assets"
    return inside if inside.is_dir() else _PACKAGE.parent / "assets"


def cache_folder() -> Path:
    """Return the folder `ouroboros` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ouroboros"


def write_atomically(path: Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Replace a file in one move: readers and a crash see the old content or all of the new.

    content  text (written in UTF-8), bytes, or a function that writes to an open file
    Raises OSError. Several processes may write the same file; the last one wins.
    """
    # Beside the target, because a move is atomic on one disk only; hidden from lists of files.
    scratch = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
    try:
        with scratch.open("xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def read_utf8(path: Path) -> str:
    """Return the text of a file, gzipped if it ends with .gz; raise InvalidInput that names it if
    there is none."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            text: str = file.read()
        return text
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{path} cannot be read: {reason}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text ({error}): convert it first") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line that is not empty; raise InvalidInput."""
    # Not splitlines(): a JSON string may hold other separators.
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise InvalidInput(f"{path.name}, line {number} is not JSON: {error}") from None


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
