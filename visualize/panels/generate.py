"""The tab Generate: a prompt, a method with its knobs, and the text as it comes, each token in the colour of its origin."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import OuroborosError
from ouroboros_core.hyperparameters import AUTO
from ouroboros_core.locations import assets
from ouroboros_core.sampling import Sampling
from visualize import figures, views
from visualize.components.plot_view import PlotView
from visualize.components.token_view import TokenView
from visualize.panels.endpoint import COMPUTE, make_task
from visualize.panels.examples import EXAMPLES, HEAP, Example
from visualize.panels.knobs import knob_component, sampling_component
from visualize.panels.studio import Studio

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.memory.pool import PhrasePool

log = logging.getLogger(__name__)

CHARTS = {
    "acceptance": ("Acceptance length per step, by who wrote the tokens", "step"),
    "time": ("Tokens against time", "seconds"),
    "speedup": ("Speedup compared with plain decoding, at each token", "token"),
    "choices": ("What the method chose: nodes checked and draft passes per step", "step"),
    "where": ("Where the time went", None),
    "positions": ("Accepted by position in the proposal, of those judged there", None),
    "even": ("Speed against acceptance, at what a step costs here", None),
    "pool": ("The phrase pool", "step"),
}
"""Label, and what lies on the x axis where the chart shares the cursor of the run."""
GROWING = "acceptance"
"""The chart that grows while a run is under way."""
EXPECTED = "Yesterday's version, an outline: copied where the output follows it. It never changes the text."
RECORDED = ("heap-ouroboros.json", "heap-autoregressive.json")


def recorded() -> tuple[dict[str, Any], dict[str, Any]] | None:
    """View and charts of the recorded run that is on screen before any model is loaded."""
    from ouroboros_core.decoding.trace import Trace

    files = [assets() / "traces" / name for name in RECORDED]
    if not all(file.exists() for file in files):
        return None
    trace, baseline = (Trace.from_json(file.read_bytes()) for file in files)
    return views.run_view(trace, baseline, run="recorded", seq=0, badge_text=views.badge(trace)), Studio.charts(trace, baseline)


class GeneratePanel:
    """Builds the tab inside an open gr.Blocks and wires it to the studio."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.knobs: dict[tuple[str, str], Any] = {}
        self.predictions: dict[str, Any] = {}
        self.automatic: dict[str, Any] = {}
        shown = recorded()
        charts = shown[1] if shown else {}
        with gr.Row(elem_classes="ouro-main"):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                self._build_inputs()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                self.view = TokenView(shown[0] if shown else None, elem_id="token-view")
                with gr.Row(elem_classes="ouro-charts"):
                    self.charts = {name: self._chart(name, charts) for name in CHARTS}
            with gr.Column(min_width=0, elem_classes="ouro-knobs"):
                self._build_knobs()
        self._wire()

    @staticmethod
    def _chart(name: str, charts: dict[str, Any]) -> PlotView:
        figure = charts.get(name) or figures.empty("Nothing has run yet.")
        label, axis = CHARTS[name]
        return PlotView({"seq": 0, "run": "recorded", "figure": figure}, label=label, axis=axis, elem_id=f"chart-{name}")

    def _build_inputs(self) -> None:
        self.prompt = gr.Textbox(HEAP, label="Prompt", lines=4, max_lines=10, elem_id="prompt")
        with gr.Row(elem_classes="ouro-chips"):
            self.chips = [gr.Button(e.label, size="sm", elem_classes="ouro-chip", min_width=0) for e in EXAMPLES]
        self.note = gr.Markdown(_note(EXAMPLES[0]), elem_classes="ouro-note")
        choices = [(m.name, m.id) for m in methods.available().values()]
        self.method = gr.Dropdown(choices, value=methods.DEFAULT, label="Method", elem_id="method")
        with gr.Row(elem_classes="ouro-buttons"):
            self.go = gr.Button("Generate", variant="primary", elem_id="generate", min_width=0)
            self.stop = gr.Button("Stop", elem_id="stop", min_width=0)
        self.models = gr.Markdown(self.studio.state(), elem_id="models", elem_classes="ouro-note")

    def _build_knobs(self) -> None:
        self.groups = []
        for method in methods.available().values():
            with gr.Column(visible=method.id == methods.DEFAULT, elem_classes="ouro-group") as group:
                gr.Markdown(f"**{method.name}.** {method.summary}", elem_classes="ouro-note")
                settable = {name for name, knob in method.Hyperparameters.knobs().items() if knob.fixed is not None}
                if settable:
                    names = ", ".join(name.replace("_", " ") for name in sorted(settable))
                    self.automatic[method.id] = gr.Checkbox(
                        True, label="auto", info=f"The method sets {names} by itself, step by step.", elem_id=f"auto-{method.id}"
                    )
                for knob in method.Hyperparameters.knobs().values():
                    self.knobs[method.id, knob.name] = knob_component(knob, automatic=knob.fixed is not None)
                if method.takes_prediction:
                    self.predictions[method.id] = gr.Textbox(
                        "", label="Expected text", info=EXPECTED, lines=3, max_lines=8, elem_id=f"prediction-{method.id}"
                    )
            self.groups.append(group)
        self.count = gr.Slider(8, 512, value=128, step=8, label="max new tokens", info="How far to go on.")
        self.chat = gr.Checkbox(False, label="chat template", info="Put the model's chat template around the prompt.")
        self.record = gr.Checkbox(
            True, label="record probabilities", info="Keep what both models thought at each place; not timed.", elem_id="record"
        )
        self.warm = gr.Checkbox(
            False,
            label="warm start",
            info="Begin with the phrases of your own earlier runs.",
            elem_id="warm",
            visible=_learns(methods.DEFAULT),
        )
        self.pools, self.finished = gr.State({}), gr.State({})
        with gr.Accordion("Sampling", open=False):
            self.sampling = {name: sampling_component(knob) for name, knob in Sampling.knobs().items()}

    def _wire(self) -> None:
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        for chip, example in zip(self.chips, EXAMPLES, strict=True):
            chip.click(
                lambda e=example: (e.prompt, e.chat, _note(e)),
                outputs=[self.prompt, self.chat, self.note],
                queue=False,
                **private,
            )
        ids = list(methods.available())
        self.method.change(
            lambda chosen: [*(gr.Group(visible=chosen == i) for i in ids), gr.update(visible=_learns(chosen))],
            self.method,
            [*self.groups, self.warm],
            queue=False,
            **private,
        )
        for owner, box in self.automatic.items():
            settable = [self.knobs[owner, name] for name in methods.get(owner).Hyperparameters.fixed()]
            box.change(_switch(len(settable)), box, settable, queue=False, **private)
        given = (self.sampling, self.predictions, self.automatic, self.knobs)
        first = [self.prompt, self.method, self.chat, self.count, self.record, self.warm, self.pools]
        inputs = [*first, *(one for group in given for one in group.values())]
        rest = [self.charts[name] for name in CHARTS if name != GROWING]
        self.go.click(self._blank, outputs=rest, queue=False, **private)
        # While it runs only what changes is an output: each costs the browser time at every update.
        running = self.go.click(
            self._generate,
            inputs,
            [self.view, self.charts[GROWING], self.finished],
            concurrency_id=COMPUTE,
            concurrency_limit=1,
            trigger_mode="once",
            **private,
        )
        running.success(lambda drawn: [drawn[name] for name in CHARTS if name != GROWING], self.finished, rest, **private)
        self.stop.click(self._stopped, outputs=self.view, cancels=[running], queue=False, **private)

    def attach_loading(self, blocks: gr.Blocks) -> None:
        """Say when the models are there."""
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        blocks.load(self._wait, outputs=self.models, concurrency_limit=None, **private)

    async def _wait(self) -> AsyncIterator[str]:
        """Polls, because a thread a visitor would be too many."""
        yield self.studio.state()
        while not self.studio.ready:
            await asyncio.sleep(0.5)
        yield self.studio.state()

    def _generate(
        self,
        prompt: str,
        method: str,
        chat: bool,
        count: float,
        record: bool,
        warm: bool,
        pools: dict[Any, PhrasePool],
        *values: Any,
    ) -> Iterator[Any]:
        remaining = iter(values)
        sampling = {name: next(remaining) for name in self.sampling}
        predictions = {name: next(remaining) for name in self.predictions}
        automatic = {name: next(remaining) for name in self.automatic}
        knobs = {name: value for (owner, name), value in zip(self.knobs, remaining, strict=True) if owner == method}
        if automatic.get(method):
            knobs |= dict.fromkeys(methods.get(method).Hyperparameters.fixed(), AUTO)
        try:
            task = make_task(prompt, method, knobs, chat, count, sampling, predictions.get(method, ""), record)
            yield from self._stream(task, partial(self._pool, task, pools) if warm and _learns(method) else None)
        except OuroborosError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def _pool(self, task: Task, pools: dict[Any, PhrasePool]) -> PhrasePool:
        """The visitor's own phrases for this method and n-gram size; `pools` belongs to one session of one browser."""
        from ouroboros_core.memory.pool import PhrasePool

        knobs: Any = task.hyperparameters
        key = task.method, knobs.ngram_size
        if key not in pools:
            pools[key] = PhrasePool(knobs.ngram_size, knobs.guess_set_size, fingerprint=self.studio.pair().fingerprint)
        return pools[key]

    def _stream(self, task: Task, pool: Callable[[], PhrasePool] | None) -> Iterator[Any]:
        """Outputs that did not change are yielded again as they were: the difference that Gradio sends is then empty."""
        view: dict[str, Any] = {}
        drawn: dict[str, Any] = {name: {} for name in CHARTS}
        for seq, update in enumerate(self.studio.run(task, compare=True, pool=pool), 1):
            view = update.get("view", view)
            drawn = drawn | {
                name: {"seq": seq, "run": view["run"], "figure": figure} for name, figure in update.get("charts", {}).items()
            }
            yield view, drawn[GROWING], drawn

    @staticmethod
    def _blank() -> list[dict[str, Any]]:
        """The charts that are drawn at the end of a run, until then."""
        figure = figures.empty("Measured when the run has ended.")
        return [{"seq": time.time_ns(), "run": "", "figure": figure} for name in CHARTS if name != GROWING]

    @staticmethod
    def _stopped() -> dict[str, Any]:
        """What the token view is told when a run was stopped: the rest stays as it is."""
        return {"seq": time.time_ns(), "stopped": True}


def _learns(method: str) -> bool:
    """Whether a method has phrases to keep from run to run."""
    return methods.get(method).learns_phrases


def _switch(count: int) -> Callable[[bool], Any]:
    """What `auto` does to so many sliders."""

    def switch(automatic: bool) -> Any:
        updates = [gr.update(interactive=not automatic) for _ in range(count)]
        return updates if count > 1 else updates[0]

    return switch


def _note(example: Example) -> str:
    return f"{example.label}: {example.note}."
