"""The settings of a run as one component's value."""

import json
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import AUTO
from visualize.watch.settings_view import declaration, merged, run_choice, run_settings

METHODS = list(methods.available())


def values_of(method: str, **values: Any) -> dict[str, Any]:
    return {"method": method, "of": {method: {"values": values}}, "run": {}}


@pytest.mark.parametrize("name", METHODS)
def test_untouched_settings_are_the_methods_own_defaults(name: str) -> None:
    kind = methods.get(name)
    chosen = run_choice(json.dumps({"method": name, "of": {}}))
    assert kind.Hyperparameters.parse(chosen.settings) == kind.Hyperparameters()
    assert (chosen.method, chosen.predicted) == (name, "")
    assert Sampling.parse(chosen.sampling) == Sampling()


@pytest.mark.parametrize("name", METHODS)
def test_a_link_to_the_defaults_keeps_them(name: str) -> None:
    kind = methods.get(name)
    defaults = kind.Hyperparameters()
    opened = run_choice(merged(kind, defaults.model_dump(), {}))
    assert kind.Hyperparameters.parse(opened.settings) == defaults


@pytest.mark.parametrize("name", METHODS)
def test_presets_are_the_defaults_fixed_amounts_and_the_published_settings(name: str) -> None:
    kind = methods.get(name)
    presets = {preset["id"]: preset["values"] for preset in declaration(kind)["presets"]}
    settings = kind.Hyperparameters
    expected = {"auto": {}, "fixed": settings.fixed(), "published": dict(kind.published)}
    offered = {key for key, values in expected.items() if values or key == "auto"}
    assert set(presets) == (offered if settings.model_fields else set())
    for key, values in presets.items():
        chosen = run_choice(values_of(name, **values))
        assert settings.parse(chosen.settings) == settings.parse(expected[key])
        assert key != "fixed" or AUTO not in chosen.settings.values()


def test_every_setting_of_sampling_is_offered_with_its_range() -> None:
    offered = {setting["name"]: setting for setting in run_settings(256)}
    assert offered["max_new_tokens"]["high"] == 256
    for name, setting in Sampling.settings().items():
        assert offered[name]["value"] == setting.default
        assert offered[name].get("high") == setting.high
    assert offered["top_p"]["low"] > 0, "no mass at all is not allowed"


def test_a_links_settings_come_back_and_what_it_does_not_name_keeps_its_value() -> None:
    kind = methods.get("speculative")
    value = merged(kind, {"gamma": 7}, {"temperature": 0.5})
    chosen = run_choice(value)
    assert value["merge"] and chosen.settings["gamma"] == 7
    assert (chosen.run["temperature"], chosen.run["seed"]) == (0.5, 0)
    assert run_choice(merged(kind, {"gamma": AUTO}, {})).settings["gamma"] == AUTO


@pytest.mark.parametrize(
    "value",
    [
        *(None, 3, "", "{", "[]", "{}", '{"of": []}'),
        '{"method": "speculative", "of": {"speculative": 3}}',
        '{"method": "speculative", "of": {"speculative": {"values": [1]}}}',
        '{"method": "speculative", "of": {}, "run": [1]}',
        '{"method": 3, "of": {}}',
        '{"method": "speculative", "of": {"speculative": {"predicted": 3}}}',
    ],
)
def test_what_is_no_value_of_the_component_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="the page sent no settings: reload it"):
        run_choice(value)
