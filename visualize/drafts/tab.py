"""Drafts and models: how the shipped drafts were trained, from the recorded runs."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from ouroboros_core.locations import assets
from ouroboros_core.messages import say
from ouroboros_core.training.folder import agreement_of
from visualize.drafts import figures as record_figures
from visualize.kit.plot_view import PlotView


def records() -> dict[str, dict[str, Any]]:
    """The recorded training runs of the drafts that ship with the project, by folder name."""
    files = sorted((assets() / "models").glob("*/training.json"))
    return {file.parent.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _facts(name: str, record: dict[str, Any]) -> str:
    last = record["curve"][-1]
    agreement = ", ".join(
        f"{share:.0%} {'for the next token' if n == 1 else f'for {n} ahead'}"
        for n, share in enumerate(agreement_of(last), 1)
    )
    trained = f"{last['tokens'] / 1e6:.1f} million answer tokens"
    return (
        f"**{name}**: {record['shape']}; {trained}; held-out agreement: {agreement}. "
        f"On {record['machine']}."
    )


class DraftsPanel:
    """Text, and two charts for each recorded run."""

    def __init__(self) -> None:
        gr.Markdown(say("drafts.recipe"), elem_id="drafts")
        for name, record in records().items():
            with gr.Row(elem_classes="ouro-pair"):
                PlotView(
                    {"seq": 0, "figure": record_figures.training_agreement(record)},
                    label=f"{name}: agreement",
                    elem_id=f"agreement-{name}",
                )
                PlotView(
                    {"seq": 0, "figure": record_figures.training_loss(record)},
                    label=f"{name}: loss",
                    elem_id=f"loss-{name}",
                )
            gr.Markdown(_facts(name, record), elem_classes="ouro-note")
        gr.Markdown(f"## The fastest draft is not the most accurate one\n{say('drafts.why')}")
