"""A setting of sampling becomes what a visitor moves: its declaration gives bounds, default and
help. Those of methods: `visualize.kit.settings_view`."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ouroboros_core.settings import Setting
from visualize.kit import labels

NOTHING_YET = "Nothing has run yet."
"""Where a run would be."""
CHAT_TEMPLATE = (
    "Put the model's chat template around the prompt; without it the model goes on with the text "
    "as it stands."
)
"""The action of the box beside a prompt."""


def sampling_component(setting: Setting) -> Any:
    label = labels.label(setting.name)
    if setting.choices:
        return gr.Dropdown(
            list(setting.choices), value=setting.default, label=label, info=setting.help
        )
    if setting.name in ("seed", "top_k"):
        return gr.Number(
            setting.default,
            precision=0,
            minimum=setting.low,
            maximum=setting.high,
            label=label,
            info=setting.help,
        )
    low = 0.05 if setting.low_is_open else setting.low
    return gr.Slider(
        low, setting.high, value=setting.default, step=0.05, label=label, info=setting.help
    )
