"""The settings of all methods as one component's value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.settings import AUTO
from visualize.kit.settings_view import declaration, method_choice, of_link

METHODS = list(methods.available())


@pytest.mark.parametrize("name", METHODS)
def test_untouched_settings_are_the_methods_own_defaults(name: str) -> None:
    kind = methods.get(name)
    untouched = json.dumps({"method": "union", "of": {}})
    chosen = method_choice(untouched, kind)
    assert kind.Hyperparameters.parse(chosen.settings) == kind.Hyperparameters()
    assert chosen.predicted == ""


@pytest.mark.parametrize("name", METHODS)
def test_a_link_to_the_defaults_keeps_them(name: str) -> None:
    kind = methods.get(name)
    defaults = kind.Hyperparameters()
    opened = method_choice(of_link(kind, defaults.model_dump()), kind)
    assert kind.Hyperparameters.parse(opened.settings) == defaults


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_automatic_once_auto_is_off(name: str) -> None:
    kind = methods.get(name)
    chosen = method_choice({"of": {name: {"auto": False}}}, kind)
    assert kind.Hyperparameters.parse(chosen.settings) == kind.Hyperparameters.parse(
        kind.Hyperparameters.fixed()
    )
    assert AUTO not in chosen.settings.values()


@pytest.mark.parametrize("name", METHODS)
def test_published_settings_are_those_of_the_preset(name: str) -> None:
    kind, declared = methods.get(name), declaration(methods.get(name))
    if not kind.published:
        assert declared["published"] is None
        return
    values = declared["published"]
    chosen = method_choice({"of": {name: {"auto": False, "values": values}}}, kind)
    given = {**kind.published}
    assert kind.Hyperparameters.parse(chosen.settings) == kind.Hyperparameters.parse(given)


def test_a_links_settings_come_back_and_what_it_does_not_name_keeps_its_value() -> None:
    kind = methods.get("speculative")
    value = of_link(kind, {"gamma": 7})
    assert value["merge"] and method_choice(value, kind).settings["gamma"] == 7
    assert method_choice(of_link(kind, {"gamma": AUTO}), kind).settings["gamma"] == AUTO


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "",
        "{",
        "[]",
        "{}",
        '{"of": []}',
        '{"of": {"speculative": 3}}',
        '{"of": {"speculative": {"values": [1]}}}',
        '{"of": {"speculative": {"auto": "no"}}}',
        '{"of": {"speculative": {"predicted": 3}}}',
    ],
)
def test_what_is_no_value_of_the_component_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="the page sent no settings: reload it"):
        method_choice(value, methods.get("speculative"))
