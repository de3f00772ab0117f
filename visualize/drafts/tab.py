"""Drafts and models: how the shipped drafts were trained, from the recorded runs, and which shape
is fastest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from pydantic import TypeAdapter

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
    """Text, a chart for each recorded run, and the table of shapes."""

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
        shapes = assets() / "models" / "shapes.json"
        if shapes.exists():
            gr.Markdown("## The fastest draft is not the most accurate one")
            table = shapes_table(read_shapes(shapes))
            gr.Markdown(f"{say('drafts.why')}\n\n{table}", elem_id="shapes")


GAMMAS = (1, 2, 4)


@dataclass(frozen=True)
class DraftShape:
    """A draft's figures; speeds are relative to plain decoding.

    agreement        held-out, from its record
    tokens           it was trained on
    cost             c
    tokens_per_pass  by draft length
    speed            by draft length
    """

    name: str
    shape: str
    tokens: int
    agreement: float
    cost: float
    tokens_per_pass: dict[int, float]
    speed: dict[int, float]

    @property
    def best(self) -> int:
        return max(self.speed, key=lambda gamma: self.speed[gamma])


def shapes_table(rows: Sequence[DraftShape]) -> str:
    heads = [f"tokens per pass, γ = {g}" for g in GAMMAS]
    lines = [
        f"| draft | fastest | c | agreement | {' | '.join(heads)} | trained tokens |",
        f"|---|---:|---:|---:|{'---:|' * len(heads)}---:|",
    ]
    for row in sorted(rows, key=lambda r: -r.speed[r.best]):
        per_pass = " | ".join(f"{row.tokens_per_pass[g]:.2f}" for g in GAMMAS)
        speed = f"{row.speed[row.best]:.2f} at γ = {row.best}"
        lines.append(
            f"| {row.shape} | {speed} | {row.cost:.3f} | {row.agreement:.1%} | {per_pass} | "
            f"{row.tokens:,} |"
        )
    return "\n".join(lines)


def read_shapes(path: Path) -> list[DraftShape]:
    return TypeAdapter(list[DraftShape]).validate_python(
        json.loads(path.read_text(encoding="utf-8"))["drafts"]
    )
