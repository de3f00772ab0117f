"""The settings of all methods as one component. As separate components they were half of the page's
components, and Gradio's script visits all components again and again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.base import Method
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.settings import AUTO, Setting
from visualize.kit import labels
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

METHOD_SETTINGS = markup("kit/settings_view")
TEXT = 40
"""Characters of a setting that is a text."""


class MethodSettings(JsonHTML):
    """The settings of the chosen method.

    Value: {method, of}, where `of` has a visitor's changes by method: {auto, values, predicted}.
    With `merge`, named settings are replaced and the others stay.
    """

    def __init__(self, kinds: Sequence[type[Method]], method: str, **options: Any) -> None:
        """method: the id of the one that is chosen first."""
        value = {"method": method, "of": {}}
        declared = [declaration(kind) for kind in kinds]
        super().__init__(value, METHOD_SETTINGS, methods=declared, padding=False, **options)


def declaration(kind: type[Method]) -> dict[str, Any]:
    """Return the view's data of a method. `published` has the values of all settings as published,
    None without published settings."""
    settings = kind.Hyperparameters.settings()
    published = {
        name: kind.published.get(name, setting.default) for name, setting in settings.items()
    }
    return {
        "id": kind.id,
        "name": kind.name,
        "summary": kind.summary,
        "auto": bool(kind.Hyperparameters.fixed()),
        "published": published if kind.published else None,
        "predicted": Need.PREDICTED_OUTPUT in kind.uses,
        "settings": [_declared(setting) for setting in settings.values()],
    }


def _declared(setting: Setting) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": setting.name,
        "label": labels.label(setting.name),
        "help": setting.help,
        "value": first_value(setting),
        "auto": setting.default == AUTO,
    }
    if setting.choices:
        return found | {"choices": list(setting.choices)}
    if setting.kind in (bool, str):
        return found | ({"most": TEXT} if setting.kind is str else {})
    step = 1 if setting.kind is int else 0.05
    return found | {"low": setting.low, "high": setting.high, "step": step}


def first_value(setting: Setting) -> Any:
    """Return a setting's first value: the default, or for an automatic setting its value without
    'auto'."""
    return setting.fixed if setting.default == AUTO else setting.default


@dataclass(frozen=True)
class MethodChoice:
    """A visitor's choice: the settings of a method, and the predicted output."""

    settings: dict[str, Any]
    predicted: str


def method_choice(value: Any, kind: type[Method]) -> MethodChoice:
    """Return the choice in the component's value; raises InvalidInput for another value. The
    settings are not checked."""
    try:
        given = json.loads(value) if isinstance(value, str) else value
        own = given["of"].get(kind.id, {})
        values, automatic = own.get("values", {}), own.get("auto", True)
        predicted = own.get("predicted", "")
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        values, automatic, predicted = None, True, ""
    whole = isinstance(values, dict) and isinstance(automatic, bool)
    if not whole or not isinstance(predicted, str):
        raise InvalidInput("the page sent no settings: reload it")
    first = {name: first_value(one) for name, one in kind.Hyperparameters.settings().items()}
    chosen = {**first, **values}
    if automatic:
        chosen |= dict.fromkeys(kind.Hyperparameters.fixed(), AUTO)
    return MethodChoice(chosen, predicted)


def of_link(kind: type[Method], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value of the component that replaces the settings of a link and keeps the others."""
    settable = kind.Hyperparameters.fixed()
    fixed = any(settings.get(name, AUTO) != AUTO for name in settable)
    values = {name: value for name, value in settings.items() if value != AUTO}
    return {
        "merge": True,
        "method": kind.id,
        "of": {kind.id: {"auto": bool(settable) and not fixed, "values": values}},
    }
