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

    Value: {method, of}, `of` by method what a visitor has changed of it: {auto, values, predicted}.
    With `merge` as well, what it names is taken over and the rest stays.
    """

    def __init__(self, kinds: Sequence[type[Method]], method: str, **options: Any) -> None:
        """method: the id of the one that is chosen first."""
        value = {"method": method, "of": {}}
        declared = [declaration(kind) for kind in kinds]
        super().__init__(value, METHOD_SETTINGS, methods=declared, padding=False, **options)


def declaration(kind: type[Method]) -> dict[str, Any]:
    """What the view knows of a method; `published` are the values of all settings that way, None
    where there is nothing of the kind."""
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
    """What stands there before a visitor changes it: where the method sets it by itself, what it is
    once nothing is automatic."""
    return setting.fixed if setting.default == AUTO else setting.default


@dataclass(frozen=True)
class MethodChoice:
    """What a visitor chose of a method: its settings, and the predicted output."""

    settings: dict[str, Any]
    predicted: str


def method_choice(value: Any, kind: type[Method]) -> MethodChoice:
    """What the component's value says of a method; raises InvalidInput for what is no such value.
    The settings themselves are not checked."""
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
    """A value of the component that takes over the settings of a link; what it does not name keeps
    its value."""
    settable = kind.Hyperparameters.fixed()
    fixed = any(settings.get(name, AUTO) != AUTO for name in settable)
    values = {name: value for name, value in settings.items() if value != AUTO}
    return {
        "merge": True,
        "method": kind.id,
        "of": {kind.id: {"auto": bool(settable) and not fixed, "values": values}},
    }
