"""A setting becomes what a visitor moves: its declaration gives bounds, default and help."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ouroboros_core.hyperparameters import Knob
from ouroboros_core.methods.base import Method
from ouroboros_core.words import known


def setting_label(name: str) -> str:
    """What a setting is called on the page: its name, unless the table of words has another."""
    return known(f"knob.{name}", name.replace("_", " "))


def setting_help(setting: Knob) -> str:
    """What its declaration says of it, unless the table of words has another text."""
    return known(f"knob.{setting.name}.help", setting.help)


def method_name(method: type[Method]) -> str:
    """Likewise for a method."""
    return known(f"method.{method.id}", method.name)


def method_summary(method: type[Method]) -> str:
    return known(f"method.{method.id}.summary", method.summary)


def setting_component(setting: Knob, automatic: bool = False) -> Any:
    """automatic: whether the method sets this by itself, so that there is nothing to see or to
    move."""
    label = setting_label(setting.name)
    if setting.choices:
        return gr.Dropdown(
            list(setting.choices), value=setting.default, label=label, info=setting_help(setting)
        )
    if setting.kind is bool:
        return gr.Checkbox(value=bool(setting.default), label=label, info=setting_help(setting))
    value = setting.default if setting.fixed is None else setting.fixed
    if setting.kind is str:
        return gr.Textbox(
            str(value),
            label=label,
            info=setting_help(setting),
            visible=not automatic,
            max_length=40,
        )
    step = 1 if setting.kind is int else 0.05
    return gr.Slider(
        setting.low,
        setting.high,
        value=value,
        step=step,
        label=label,
        info=setting_help(setting),
        visible=not automatic,
    )


def sampling_component(setting: Knob) -> Any:
    label = setting_label(setting.name)
    if setting.choices:
        return setting_component(setting)
    if setting.name in ("seed", "top_k"):
        return gr.Number(
            setting.default,
            precision=0,
            minimum=setting.low,
            maximum=setting.high,
            label=label,
            info=setting_help(setting),
        )
    low = 0.05 if setting.low_is_open else setting.low
    return gr.Slider(
        low, setting.high, value=setting.default, step=0.05, label=label, info=setting_help(setting)
    )
