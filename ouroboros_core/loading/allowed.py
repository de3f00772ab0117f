"""The models that a page offers: a list of pairs and, on a private machine, any typed name."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ouroboros_core.errors import InvalidInput

JOIN = " + "
"""Separator of target and draft in one typed line."""


class PairChoice(BaseModel):
    """A pair by name; target, draft, head and corpus are arguments of `load_pair`.

    size  bytes of the models' weights, which are shown while they are not on the disk
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    target: str | None = None
    draft: str | None = None
    head: str | tuple[str, ...] | None = None
    corpus: str | None = None
    size: int | None = Field(default=None, ge=1)


def read_pairs(file: Path) -> tuple[PairChoice, ...]:
    """Return the pairs of a JSON file, such as `[{"name": "small", "target": "models/target",
    "draft": "models/draft"}]`.

    Without a target a pair uses the embedded one. The first pair is selected at first. Raises
    InvalidInput if the file is missing, malformed or empty, or repeats a name.
    """
    try:
        choices = TypeAdapter(tuple[PairChoice, ...]).validate_python(
            json.loads(file.read_text(encoding="utf-8"))
        )
    except (OSError, ValueError) as error:
        reason = (
            "; ".join(_explain(e) for e in error.errors())
            if isinstance(error, ValidationError)
            else error
        )
        raise InvalidInput(
            f"{file} is no list of pairs ({reason}): "
            'write [{"name": "...", "target": "...", "draft": "..."}, ...]'
        ) from None
    if not choices:
        raise InvalidInput(f"{file} lists no pair: name at least one")
    names = [choice.name for choice in choices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{file} has two pairs named {twice}: give each a different name")
    return choices


def _explain(error: object) -> str:
    assert isinstance(error, dict)
    where = ".".join(str(key) for key in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def typed(text: str) -> PairChoice:
    """Return the pair of `TARGET` or `TARGET + DRAFT`, each a folder, GGUF file or Hub id."""
    target, _, draft = (name.strip() for name in text.partition(JOIN))
    if not target or not text.isprintable():
        raise InvalidInput(f"name a target, as in TARGET or TARGET + DRAFT, got {text[:80]!a}")
    return PairChoice(name=text.strip()[:200], target=target, draft=draft or None)
