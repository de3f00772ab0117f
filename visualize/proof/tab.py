"""Proof: a beginning drawn with many seeds, counted against the target's own probabilities."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import say
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from visualize.kit import labels
from visualize.kit.events import PRIVATE, in_words, pressable_from, pressable_until_the_end
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.proof import tally as proof
from visualize.proof.job import Counted, ProofJob
from visualize.proof.tally import Tally
from visualize.run.request import RunRequest
from visualize.server.jobs import Waiting
from visualize.server.limits import visitor_id, whole_number
from visualize.server.runner import Runner
from visualize.watch.settings_view import CHAT_TEMPLATE

FEWEST_SEEDS, MOST_SEEDS = 100, 500
LONGEST = 3
"""Tokens of a counted text."""


class DiceView(JsonHTML):
    """The game of three tokens, with a thousand draws at the start if `drawn`. It has no value."""

    VIEW = markup("proof/dice_view")


class ProofView(JsonHTML):
    """Counts of drawn texts. Value: a `visualize.proof.tally.view`, or {seq, stopped}."""

    VIEW = markup("proof/proof_view")


class ProofPanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        self.runner, self.pair = runner, pair
        gr.Markdown(say("proof.purpose"), elem_classes="ouro-motto")
        with gr.Row(elem_classes=["ouro-main", "ouro-game", "ouro-game-proof"]):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                self._build_prompt()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                before = "Press Draw: the model's texts are counted as they arrive."
                self.view = ProofView(proof.view(None, before), elem_id="proof-view")
            with gr.Column(min_width=0, elem_classes="ouro-options"):
                self._build_settings()
            with gr.Column(min_width=0, elem_classes="ouro-score"):
                gr.Markdown(say("proof.dice"), elem_classes="ouro-note")
                DiceView(drawn=True, elem_id="proof-dice")
        self._wire()

    def _build_prompt(self) -> None:
        self.prompt = gr.Textbox(
            "Once upon a time there was a",
            label="Prompt",
            lines=2,
            max_lines=6,
            elem_id="proof-prompt",
        )
        with gr.Row(elem_classes="ouro-buttons"):
            self.go = gr.Button("Draw", variant="primary", elem_id="prove", min_width=0)
            self.stop = gr.Button("Stop", interactive=False, elem_id="proof-stop", min_width=0)

    def _build_settings(self) -> None:
        self.method = gr.Dropdown(
            _writers({}), value="speculative", label="Method", elem_id="proof-method"
        )
        names = [(label, rule) for rule, label in labels.acceptance_rules().items()]
        self.rule = gr.Dropdown(names, value=names[0][1], label="Rule", elem_id="proof-rule")
        self.seeds = gr.Slider(FEWEST_SEEDS, MOST_SEEDS, value=200, step=50, label="Seeds")
        self.length = gr.Slider(
            1, LONGEST, value=1, step=1, label="Tokens", info="Counted as one text."
        )
        self.temperature = gr.Slider(
            0.1,
            Sampling.settings()["temperature"].high,
            value=0.7,
            step=0.05,
            label=labels.label("temperature"),
            info="Higher is more random.",
        )
        with gr.Accordion("More", open=False):
            self.chat = gr.Checkbox(False, label="Chat template", info=CHAT_TEMPLATE)
            self.first = gr.Number(
                0, precision=0, minimum=0, maximum=2**32 - 1 - MOST_SEEDS, label="First seed"
            )
        gr.Markdown(say("proof.intro"), elem_classes="ouro-note")

    def _wire(self) -> None:
        inputs = [
            self.pair,
            self.seeds,
            self.length,
            self.prompt,
            self.method,
            self.rule,
            self.temperature,
            self.chat,
            self.first,
        ]
        pressable_from([self.go.click], self.stop)
        running = self.go.click(
            self._prove, inputs, self.view, concurrency_limit=None, trigger_mode="once", **PRIVATE
        )
        self.stop.click(
            lambda: {"seq": time.time_ns(), "stopped": True},
            outputs=self.view,
            cancels=[running],
            queue=False,
            **PRIVATE,
        )
        pressable_until_the_end(running, self.stop)

    def follow(self, models: Any) -> None:
        """Offer the methods of the pair, whenever it or the words about the models change."""
        chosen = [self.pair, self.method]
        changes = [models.change, self.pair.change]
        gr.on(changes, self._offer, chosen, self.method, queue=False, **PRIVATE)

    def _offer(self, pair: str, method: str) -> Any:
        writers = _writers(self.runner.models.lacking(pair))
        ids = [name for _, name in writers]
        return gr.update(choices=writers, value=method if method in ids else ids[0])

    def _prove(
        self, request: gr.Request, pair: str, seeds: Any, length: Any, *values: Any
    ) -> Iterator[dict[str, Any]]:
        tally: Tally | None = None
        try:
            count, size = number_of_seeds(seeds), whole_number("tokens", length, LONGEST)
            task = proof_task(size, *values)
            job = ProofJob(task, count, size)
            for update in self.runner.submit(job, pair=pair, visitor=visitor_id(request)):
                match update:
                    case Waiting(name=name, status=status):
                        yield proof.view(tally, status, name)  # others may compute in between
                    case Counted(name=name, tally=tally, status=status):
                        yield proof.view(tally, status, name)
        except Exception as error:
            yield proof.view(None, in_words(error))


def _writers(lacking: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return name and id of the methods that write a text in their own way, except those that lack
    something."""
    return [
        (kind.name, kind.id)
        for kind in labels.offered()
        if (kind.proposes or kind.writer is not Source.TARGET) and kind.id not in lacking
    ]


def number_of_seeds(seeds: Any) -> int:
    """Return a number within the slider's bounds; raises InvalidInput."""
    count = whole_number("seeds", seeds, MOST_SEEDS)
    if count < FEWEST_SEEDS:
        raise InvalidInput(f"seeds must be between {FEWEST_SEEDS} and {MOST_SEEDS}, got {count}")
    return count


def proof_task(
    length: int, prompt: str, method: str, rule: str, temperature: Any, chat: bool, first: Any
) -> Task:
    """Return the task to draw with each seed, beginning with its own seed.

    Every amount is fixed. With 'auto' a method might not draft, and nothing would be proved.
    """
    kind = methods.get(method)
    settings = kind.Hyperparameters.fixed()
    sampling = {"temperature": temperature, "acceptance": rule, "seed": first}
    request = RunRequest(prompt, method, settings, chat, length + proof.ROOM, sampling)
    task = request.task()
    if task.sampling.temperature == 0:
        raise InvalidInput("temperature 0 draws nothing: choose a higher one")
    return task
