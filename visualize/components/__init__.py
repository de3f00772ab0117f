"""Gradio components of our own; their JavaScript and CSS lie in assets. `OuroborosView` is for any
app, the others are parts of this project's page."""

from __future__ import annotations

from visualize.kit.ouroboros_view import OuroborosView, StepShown, TokenSelected

__all__ = ["OuroborosView", "StepShown", "TokenSelected"]
