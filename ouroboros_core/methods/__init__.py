"""The decoding methods, one file each; a new file with a Method in it is a new method, there is no list to extend."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.base import Method

DEFAULT = "union"


@cache
def available() -> dict[str, type[Method]]:
    """All methods by id, simplest first."""
    found: list[type[Method]] = []
    for module in pkgutil.iter_modules(__path__):
        if module.name == "base":
            continue
        content = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        found += [c for c in content if isinstance(c, type) and issubclass(c, Method) and c is not Method and "id" in vars(c)]
    return {method.id: method for method in sorted(set(found), key=lambda m: (m.order, m.id))}


def get(method: str) -> type[Method]:
    """The method of that id; raises InvalidInput naming those there are."""
    if not isinstance(method, str) or method not in available():
        raise InvalidInput(f"method must be one of {', '.join(available())}, got {str(method)[:80]}")
    return available()[method]
