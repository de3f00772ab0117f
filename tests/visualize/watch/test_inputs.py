"""What a run is described by, read from the page and written to it."""

import json
import sys
from typing import Any

import gradio as gr
import pytest

from tests.commands import finished
from visualize.watch.inputs import learns

ROUND_TRIPS = """
import json
from urllib.parse import parse_qsl
import gradio as gr
from visualize.watch.inputs import RunInputs
from visualize.run import permalink, saving
inputs = RunInputs(512, "a prompt")
with gr.Blocks():
    for build in (
        inputs.build_prompt, inputs.build_examples, inputs.build_method, inputs.build_settings
    ):
        build()
for value in (True, False):
    settings = {"method": "union", "of": {}, "run": {"generation_config": value}}
    task, _ = inputs.read(json.dumps(["a prompt", json.dumps(settings)]))
    link = saving.link(task)["link"]
    back, _ = permalink.read(dict(parse_qsl(link[1:])))
    written = inputs.write(back)[1]["run"]["generation_config"]
    tasks = [task.generation_config, task.plain().generation_config]
    print(json.dumps([*tasks, "generation_config=0" not in link, back.generation_config, written]))
"""
"""Prints of each value of the box what the task, its plain run, the link and the box have."""


def test_a_link_switches_the_checkpoints_own_settings_off_as_the_page_does() -> None:
    """A round trip: the box on the page, the task, the link, and the box again."""
    done = finished([sys.executable, "-c", ROUND_TRIPS], check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[True] * 5, [False] * 5]


@pytest.mark.parametrize("name", [[], None, {"a": 1}, 3])
def test_an_event_that_names_nothing_is_answered_with_words(name: Any) -> None:
    with pytest.raises(gr.Error, match="method must be one of"):
        learns(name)
