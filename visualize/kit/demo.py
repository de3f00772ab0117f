"""The view of a run in an app of its own, with the recorded runs of this project and what its
events tell: `python -m visualize.kit.demo [--port 7860]`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr

from ouroboros_core.trace.trace import Trace
from visualize.gallery import runs as gallery
from visualize.kit.ouroboros_view import OuroborosView, StepShown, TokenSelected


def recorded(name: str) -> tuple[Trace, Trace | None]:
    """A recorded run and its plain run; raises InvalidInput for a name that is none."""
    return gallery.trace(name), gallery.baseline(name)


def selected(token: TokenSelected) -> str:
    who = f"{token.source.value}, {token.kind}" if token.kind else token.source.value
    return f"Token {token.index + 1}, {token.text!r}, of step {token.step + 1}: {who}."


def stepped(shown: StepShown) -> str:
    return f"Step {shown.step + 1}: {shown.tokens} tokens after {shown.seconds:.2f} s."


def build() -> gr.Blocks:
    """The app, not yet launched."""
    names = list(gallery.runs())
    first = "java-union"
    with gr.Blocks(title="OuroborosView", analytics_enabled=False) as demo:
        gr.Markdown("# OuroborosView\n\nChoose a run, a token of it, a step of it.")
        with gr.Row():
            name = gr.Dropdown(names, value=first, label="Recorded run")
            file = gr.File(label="Or a trace of your own", file_types=[".json"], height=120)
        view = OuroborosView(recorded(first))
        with gr.Row():
            token = gr.Textbox(label="select", interactive=False)
            step = gr.Textbox(label="step", interactive=False)
        name.change(recorded, name, view)
        file.upload(Path, file, view)
        view.select(selected, None, token)
        view.step(stepped, None, step)
    return demo


def main() -> None:
    parser = argparse.ArgumentParser(description="Show OuroborosView in an app of its own.")
    parser.add_argument("--port", type=int, default=7860, help="default: 7860")
    build().launch(server_port=parser.parse_args().port)


if __name__ == "__main__":
    main()
