"""Heads that draft from the target's hidden states. A kind of head is a recipe in `recipes.py`, a
file with the name of the kind in this folder, and one in `training`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def class_in(module: str, base: type) -> Any:
    """Return the class of a module that extends `base`, the last one in the file."""
    classes = [
        value
        for value in vars(import_module(module)).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module
    ]
    return classes[-1]
