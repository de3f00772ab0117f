"""A knob becomes what a visitor moves: bounds, default and help come from its declaration."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ouroboros_core.hyperparameters import Knob
from ouroboros_core.methods.base import Method
from ouroboros_core.words import known


def knob_label(name: str) -> str:
    """What a knob is called on the page: its name, unless the table of words has another."""
    return known(f"knob.{name}", name.replace("_", " "))


def knob_help(knob: Knob) -> str:
    """What its declaration says of it, unless the table of words has another text."""
    return known(f"knob.{knob.name}.help", knob.help)


def method_name(method: type[Method]) -> str:
    """Likewise for a method."""
    return known(f"method.{method.id}", method.name)


def method_summary(method: type[Method]) -> str:
    return known(f"method.{method.id}.summary", method.summary)


def knob_component(knob: Knob, automatic: bool = False) -> Any:
    """automatic: whether the method sets the knob by itself, so that there is nothing to see or to
    move."""
    label = knob_label(knob.name)
    if knob.choices:
        return gr.Dropdown(
            list(knob.choices), value=knob.default, label=label, info=knob_help(knob)
        )
    if knob.kind is bool:
        return gr.Checkbox(value=bool(knob.default), label=label, info=knob_help(knob))
    step = 1 if knob.kind is int else 0.05
    value = knob.default if knob.fixed is None else knob.fixed
    return gr.Slider(
        knob.low,
        knob.high,
        value=value,
        step=step,
        label=label,
        info=knob_help(knob),
        visible=not automatic,
    )


def sampling_component(knob: Knob) -> Any:
    label = knob_label(knob.name)
    if knob.choices:
        return knob_component(knob)
    if knob.name in ("seed", "top_k"):
        return gr.Number(
            knob.default,
            precision=0,
            minimum=knob.low,
            maximum=knob.high,
            label=label,
            info=knob_help(knob),
        )
    low = 0.05 if knob.low_is_open else knob.low
    return gr.Slider(
        low, knob.high, value=knob.default, step=0.05, label=label, info=knob_help(knob)
    )
