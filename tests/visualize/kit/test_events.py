"""What the events of the page carry: the browser pays for it at every update of a run."""

from importlib import import_module
from inspect import signature
from typing import Any

import httpx
import pytest

from ouroboros_core.errors import InvalidInput
from visualize.kit.json_html import JsonHTML
from visualize.watch.inputs import gathered_values

pytestmark = pytest.mark.embedded

FEW = 12
"""Inputs of an event at most."""


def test_the_browser_keeps_few_loading_states(url: str) -> None:
    """Gradio's script has one for each output of an event, unless `show_progress_on` is an empty
    list, and for each input of an event that has ended. Whenever any event sends anything it goes
    through all of them, and for each through all components of the page."""
    found: list[dict[str, Any]] = httpx.get(url + "/config", timeout=30).json()["dependencies"]
    events = [one for one in found if one["backend_fn"] and one["targets"]]
    assert len(events) > 40
    assert [one["id"] for one in events if one["show_progress_on"] != []] == []
    assert max(len(one["inputs"]) for one in events) <= FEW


def test_a_change_is_gathered_before_the_server_is_asked_anything(url: str) -> None:
    """Gradio's script does what a change triggers one after the other, and waits for answers."""
    config = httpx.get(url + "/config", timeout=30).json()
    every: list[dict[str, Any]] = config["dependencies"]
    ids = {one["props"].get("elem_id"): one["id"] for one in config["components"]}
    inputs = [[ids[name], "change"] for name in ("prompt", "run-settings")]
    gathering = next(one for one in every if inputs[0] in one["targets"])
    assert gathering["targets"] == inputs and not gathering["backend_fn"]
    for target in inputs:
        assert next(one for one in every if target in one["targets"]) is gathering


@pytest.mark.parametrize(
    "text", [None, 7, "", "[1, 2", '{"a": 1, "b": 2}', "[1]", "[1, 2, 3]", "[" * 100_000]
)
def test_what_no_page_of_ours_sends_is_refused_in_a_sentence(text: Any) -> None:
    with pytest.raises(InvalidInput, match="the page sent no inputs: reload it"):
        gathered_values(text, 2)


def test_values_keep_their_order_and_their_types() -> None:
    assert gathered_values('["prompt", true, 1.5, null]', 4) == ["prompt", True, 1.5, None]


def test_every_component_can_be_made_without_a_value() -> None:
    """Gradio makes an output anew, its value left out, where an event leaves it as it is
    (`gr.skip`). A run whose update cannot be shown would keep its place in the queue."""
    import_module("visualize.page")
    kinds = JsonHTML.__subclasses__()
    assert len(kinds) > 15
    for kind in kinds:
        value = signature(kind).parameters.get("value")
        assert value is None or value.default is not value.empty, kind
