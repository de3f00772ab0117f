"""The decoding methods, one file each; a new file with a Method in it is a new method, there is no
list to extend."""

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
from ouroboros_core.settings import read_settings as read_given

DEFAULT = "union"


@cache
def available() -> dict[str, type[Method]]:
    """All methods by id, simplest first."""
    found: list[type[Method]] = []
    for module in pkgutil.iter_modules(__path__):
        content = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        found += [
            c for c in content if isinstance(c, type) and issubclass(c, Method) and "id" in vars(c)
        ]
    return {method.id: method for method in sorted(set(found), key=lambda m: (m.order, m.id))}


def get(method: str) -> type[Method]:
    """The method of that id; raises InvalidInput naming those there are."""
    if not isinstance(method, str) or method not in available():
        raise InvalidInput(
            f"method must be one of {', '.join(available())}, got {str(method)[:80]}"
        )
    return available()[method]


EXTENDED = "extended"
"""The setting that lets a method do what its paper does not."""


def able(need: Need) -> str:
    """The methods that can make use of something, by id, as a list in words."""
    return ", ".join(m.id for m in available().values() if need in m.uses | m.needs)


PRESETS = ("auto", "published")
"""What a method's settings begin as: its defaults, sized for this machine, or those of its
paper."""


def preset(kind: type[Method], name: str) -> dict[str, Any]:
    """The settings of a preset, to which others can be added; raises InvalidInput."""
    if name not in PRESETS:
        raise InvalidInput(f"preset must be one of {', '.join(PRESETS)}, got {str(name)[:40]}")
    if name == "auto":
        return {}
    if not kind.published:
        able = ", ".join(method.id for method in available().values() if method.published)
        raise InvalidInput(
            f"{kind.id} has no published settings: leave the preset out, or choose {able}"
        )
    return dict(kind.published)


def with_preset(text: Any) -> tuple[type[Method], dict[str, Any]]:
    """A method and the settings of its preset, which may stand behind it in brackets:
    `lookahead[published]`; raises InvalidInput."""
    name, bracket, rest = text.partition("[") if isinstance(text, str) else (text, "", "")
    kind = get(name)
    return kind, preset(kind, rest.removesuffix("]") if bracket else "auto")


def split_preset(text: str) -> tuple[str, str]:
    """`published, window_size=7` as the name of the preset, 'auto' if there is none, and the
    settings that follow it."""
    first, _, rest = text.partition(",")
    return (first.strip(), rest) if first.strip() in PRESETS else ("auto", text)


def read_settings(kind: type[Method], text: str) -> dict[str, Any]:
    """The settings of `published, window_size=7`, those that are typed as text and not yet checked;
    raises InvalidInput."""
    name, given = split_preset(text)
    return preset(kind, name) | read_given(given)


def label(method: str, settings: Mapping[str, Any]) -> str:
    """The method with what a reader must know of its settings: `lookahead[published]` where they
    are those of its paper, `lookahead[extended=true]` where it does more than that has."""
    kind = available().get(method)
    if kind is not None and kind.published and dict(kind.published) == dict(settings):
        return f"{method}[published]"
    return f"{method}[{EXTENDED}=true]" if settings.get(EXTENDED) is True else method


def needed(kind: type[Method], hyperparameters: Any) -> frozenset[Need]:
    """What a method needs besides the target with these settings."""
    members = kind.members(hyperparameters, Resources()).values()
    return kind.needs.union(*(get(name).needs for name, _ in members))


def wanting(need: Need, foreign_draft: str, remedy: str) -> str:
    """What is missing and what to do, in words, for a sentence that goes on; `foreign_draft` is
    that of `Resources`."""
    if foreign_draft and need in SHARING:
        return (
            f"{need.phrase} that shares the target's vocabulary, but {foreign_draft}: choose "
            f"{able(Need.TRANSLATED)}, which translates, name another draft with --draft"
        )
    return f"{need.phrase}: {remedy}"


def create(kind: type[Method], hyperparameters: Any, resources: Resources) -> Method:
    """A method for one run, with the members that it combines; raises InvalidInput if something
    is missing."""
    for need in sorted(needed(kind, hyperparameters)):
        if not resources.has(need):
            what = wanting(need, resources.foreign_draft, REMEDIES[need])
            raise InvalidInput(f"{kind.id} needs {what}, or choose another method")
    members = {}
    for role, (name, settings) in kind.members(hyperparameters, resources).items():
        member, chosen = get(name), dict(settings)
        if EXTENDED not in member.Hyperparameters.settings():
            chosen.pop(EXTENDED, None)
        if chosen.pop("fixed", False):
            chosen = member.Hyperparameters.fixed(**chosen)
        given = member.Hyperparameters(**chosen)
        kept = _kept(f"{role}/{name}", member, given, resources)
        members[role] = create(member, given, replace(resources, memory=kept))
    return kind(hyperparameters, replace(resources, members=members))


def _kept(
    role: str, member: type[Method], hyperparameters: Any, resources: Resources
) -> Memory | None:
    """A member's part of what is kept for all; None where the run is cold, or it keeps nothing."""
    memory = resources.memory
    if not isinstance(memory, Memories):
        return None
    return memory.part(role, partial(member.new_memory, hyperparameters))
