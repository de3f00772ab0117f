"""The acceptance rules: each decides which proposed tokens enter the text.

One file holds one rule. A new file with a `Rule` in it is a new rule: options, help, reasons, page
and documentation read its declaration, and no list names it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ouroboros_core.errors import InvalidInput
from ouroboros_core.rules.parts.base import ALONE, Explain, Rule

DEFAULT = "match"
"""The rule of plain decoding, and of every run at temperature 0."""


@cache
def available() -> dict[str, Rule]:
    """Return all rules by id, in the order of menus."""
    classes: set[type[Rule]] = set()
    for module in pkgutil.iter_modules(__path__):
        content = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        classes.update(
            item
            for item in content
            if isinstance(item, type) and issubclass(item, Rule) and "id" in vars(item)
        )
    ordered = sorted(classes, key=lambda rule: (rule.order, rule.id))
    return {rule.id: rule() for rule in ordered}


def get(rule: str) -> Rule:
    """Return the rule with an id; raises InvalidInput, which names the allowed ids."""
    if rule not in available():
        allowed = ", ".join(available())
        raise InvalidInput(f"acceptance must be one of {allowed}, got {str(rule)[:80]}")
    return available()[rule]


def explained() -> str:
    """Return one clause for each rule, joined by semicolons: `match keeps ...; rejection ...`."""
    return "; ".join(rule.clause(rule.id) for rule in available().values())


def joint_tests() -> dict[str, Explain]:
    """Return the tests of all rules besides `token`, by name."""
    return {name: test for rule in available().values() for name, test in rule.joint_tests.items()}


def tests() -> tuple[str, ...]:
    """Return the names of all tests that a trial in a trace may have."""
    return (ALONE, *joint_tests())
