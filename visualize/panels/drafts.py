"""The tab Drafts: how the embedded drafts were made, from the recorded runs, and which shape is fastest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from ouroboros_core.locations import assets
from ouroboros_core.training.record import agreement_of
from visualize import record_figures
from visualize.components.plot_view import PlotView

RECIPE = """
## How this draft was made

1. **The target writes.** Given the opening words of a question - or not even those - the target writes the question and then its
   own answer. Only articles to summarise and sentences to translate are partly from free texts that people wrote. No benchmark's
   text is in it.
2. **The target answers once more, in numbers.** At every place of an answer its sixteen likeliest next tokens are kept with their
   probabilities; for the EAGLE head its hidden state, too.
3. **A few layers learn them.** The draft begins as some of the target's own layers, with its embeddings, and
   learns those probabilities rather than single right answers. The EAGLE head is one layer; it reads the target's hidden state
   at a position and the token after it, and says what comes next.
4. **What counts is agreement.** On conversations that training never saw: how often is the draft's first choice the target's?
   That share is what greedy decoding accepts.

Below: agreement and loss against the answer tokens trained on, as recorded. Where a line breaks, the run went on with other
texts, and its held-out texts and loss are others from there on.
"""

WHY = """
A draft pass costs c target passes. A deeper draft is right more often and costs more each time; what wins is the speed that
follows from both, relative to plain decoding.
"""


def records() -> dict[str, dict[str, Any]]:
    """The recorded training runs of the drafts that ship with the project, by folder name."""
    files = sorted((assets() / "models").glob("*/training.json"))
    return {file.parent.name: json.loads(file.read_text()) for file in files}


def _facts(name: str, record: dict[str, Any]) -> str:
    last = record["curve"][-1]
    agreement = [f"{share:.0%} {n} ahead" for n, share in enumerate(agreement_of(last), 1)]
    told = f"{record['shape']}; {last['tokens'] / 1e6:.1f} million answer tokens; held-out agreement {', '.join(agreement)}"
    return f"**{name}**: {told}. On {record['machine']}.\n\n    {record['command']}"


class DraftsPanel:
    """Text, a chart for each recorded run, and the table of shapes."""

    def __init__(self) -> None:
        gr.Markdown(RECIPE, elem_id="drafts")
        for name, record in records().items():
            with gr.Row(elem_classes="ouro-pair"):
                PlotView(
                    {"seq": 0, "figure": record_figures.training_agreement(record)},
                    label=f"{name}: agreement",
                    elem_id=f"agreement-{name}",
                )
                PlotView(
                    {"seq": 0, "figure": record_figures.training_loss(record)}, label=f"{name}: loss", elem_id=f"loss-{name}"
                )
            gr.Markdown(_facts(name, record), elem_classes="ouro-note")
        shapes = assets() / "models" / "shapes.json"
        if shapes.exists():
            gr.Markdown("## The fastest draft is not the most accurate one")
            gr.Markdown(_shapes(shapes), elem_id="shapes")


def _shapes(path: Path) -> str:
    from ouroboros_core.benchmark import shapes

    return f"{WHY}\n\n{shapes.table(shapes.read(path))}"
