"""The methods in six families, by who guesses; the map of the methods places each."""

from __future__ import annotations

from typing import Any

from ouroboros_core.methods.parts.base import Guesser, Method
from ouroboros_core.methods.parts.needs import ASSISTED
from visualize.kit import labels

FAMILIES = {
    None: ("First and last", "No guess at all, a draft that nobody checks, or all sources."),
    Guesser.DRAFT_MODEL: ("A draft model", "A small model writes the next few tokens."),
    Guesser.HEAD: ("A head", "A small layer reads the target's own hidden states."),
    Guesser.TARGET: ("The target itself", "Guesses beside its own work, without another model."),
    Guesser.TEXT: ("Text and corpora", "Copies what followed the same words before."),
    "transformers": ("Transformers' own code", "What generate() of the library proposes."),
}
"""Title and line of each family."""


def families() -> list[dict[str, Any]]:
    """Return the families with their methods, the simplest first; without a method that a file
    cannot provide for. A superseded method has the reason, and comes under "More"."""
    by_family: dict[Any, list[dict[str, str]]] = {family: [] for family in FAMILIES}
    for kind in labels.offered():
        method = {"id": kind.id, "name": kind.name, "line": kind.summary}
        method["superseded"] = kind.superseded
        by_family[_family(kind)].append(method)
    return [
        {"title": title, "line": line, "methods": by_family[family]}
        for family, (title, line) in FAMILIES.items()
    ]


def _family(kind: type[Method]) -> Guesser | str | None:
    if kind.needs & set(ASSISTED):
        return "transformers"
    return kind.on_map[0] if kind.on_map else None
