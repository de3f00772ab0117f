"""The decoding methods, one file each. A file with a Method in it is a method; there is no list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import Memories, Memory
from ouroboros_core.methods.parts.base import Method, Resources
from ouroboros_core.methods.parts.needs import REMEDIES, SHARING, Need
from ouroboros_core.settings import read_settings as parse_settings

DEFAULT = "union"
PLAIN = "autoregressive"
"""Plain decoding, with which all others are compared."""


@cache
def available() -> dict[str, type[Method]]:
    """Return all methods by id, the simplest first."""
    kinds: list[type[Method]] = []
    for module in pkgutil.iter_modules(__path__):
        content = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        kinds += [
            c for c in content if isinstance(c, type) and issubclass(c, Method) and "id" in vars(c)
        ]
    return {method.id: method for method in sorted(set(kinds), key=lambda m: (m.order, m.id))}


def get(method: str) -> type[Method]:
    """Return the method of an id; raise InvalidInput with all ids for an unknown one."""
    if not isinstance(method, str) or method not in available():
        raise InvalidInput(
            f"method must be one of {', '.join(available())}, got {str(method)[:80]}"
        )
    return available()[method]


EXTENDED = "extended"
"""The setting with which a method goes beyond its paper."""


def able(need: Need) -> str:
    """Return the ids of the methods that need or use something, as a list in words."""
    return ", ".join(m.id for m in available().values() if need in m.uses | m.needs)


def simplest_with(need: Need) -> str:
    """Return the id of the simplest method that needs something."""
    return next(m.id for m in available().values() if need in m.needs)


PRESETS = ("auto", "published")
"""Settings to begin with: a method's defaults, sized for this machine, or its paper's."""


def preset(kind: type[Method], name: str) -> dict[str, Any]:
    """Return the settings of a preset, to which others can be added; raise InvalidInput."""
    if name not in PRESETS:
        raise InvalidInput(f"preset must be one of {', '.join(PRESETS)}, got {str(name)[:40]}")
    if name == "auto":
        return {}
    if not kind.published:
        published = ", ".join(method.id for method in available().values() if method.published)
        raise InvalidInput(
            f"{kind.id} has no published settings: leave the preset out, or choose {published}"
        )
    return dict(kind.published)


def with_preset(text: Any) -> tuple[type[Method], dict[str, Any]]:
    """Return a method and the settings of its preset, written as `lookahead[published]` or
    `lookahead`; raise InvalidInput."""
    name, bracket, rest = text.partition("[") if isinstance(text, str) else (text, "", "")
    kind = get(name)
    return kind, preset(kind, rest.removesuffix("]") if bracket else "auto")


def split_preset(text: str) -> tuple[str, str]:
    """Split `published, window_size=7` into the name of the preset, 'auto' if it is missing, and
    the settings after it."""
    first, _, rest = text.partition(",")
    return (first.strip(), rest) if first.strip() in PRESETS else ("auto", text)


def read_settings(kind: type[Method], text: str) -> dict[str, Any]:
    """Return the settings of `published, window_size=7`, as text and not yet checked; raise
    InvalidInput."""
    name, rest = split_preset(text)
    return preset(kind, name) | parse_settings(rest)


def label(method: str, settings: Mapping[str, Any]) -> str:
    """Return the name of a method with its settings: `lookahead[published]` with the settings of
    its paper, `lookahead[extended=true]` if it goes beyond the paper."""
    kind = available().get(method)
    if kind is not None and kind.published and dict(kind.published) == dict(settings):
        return f"{method}[published]"
    return f"{method}[{EXTENDED}=true]" if settings.get(EXTENDED) is True else method


def needed(kind: type[Method], hyperparameters: Any) -> frozenset[Need]:
    """Return the needs of a method with these settings, without the target."""
    members = kind.members(hyperparameters, Resources()).values()
    return kind.needs.union(*(get(name).needs for name, _ in members))


def wanting(need: Need, foreign_draft: str, remedy: str) -> str:
    """Return a phrase for a missing need and its remedy, the middle of a sentence.

    foreign_draft: see `Resources`.
    """
    if foreign_draft and need in SHARING:
        return (
            f"{need.phrase} that shares the target's vocabulary, but {foreign_draft}: choose "
            f"{able(Need.TRANSLATED)}, which translates, name another draft with --draft"
        )
    return f"{need.phrase}: {remedy}"


def create(kind: type[Method], hyperparameters: Any, resources: Resources) -> Method:
    """Return a method for one run, with the members that it combines; raise InvalidInput if a
    need is missing."""
    for need in sorted(needed(kind, hyperparameters)):
        if not resources.has(need):
            missing = wanting(need, resources.foreign_draft, REMEDIES[need])
            raise InvalidInput(f"{kind.id} needs {missing}, or choose another method")
    members = {}
    for role, (name, settings) in kind.members(hyperparameters, resources).items():
        member, chosen = get(name), dict(settings)
        if EXTENDED not in member.Hyperparameters.settings():
            chosen.pop(EXTENDED, None)
        if chosen.pop("fixed", False):
            chosen = member.Hyperparameters.fixed(**chosen)
        parsed = member.Hyperparameters(**chosen)
        memory = _member_memory(f"{role}/{name}", member, parsed, resources)
        members[role] = create(member, parsed, replace(resources, memory=memory))
    return kind(hyperparameters, replace(resources, members=members))


def _member_memory(
    role: str, member: type[Method], hyperparameters: Any, resources: Resources
) -> Memory | None:
    """Return a member's memory; None if the run is cold, or if the member has no memory."""
    memory = resources.memory
    if not isinstance(memory, Memories):
        return None
    return memory.part(role, partial(member.new_memory, hyperparameters))
