"""The tab Generate: a prompt, a method with its knobs, and the text as it comes, each token in the colour of its origin."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.hyperparameters import AUTO, Knob
from ouroboros_core.locations import assets
from ouroboros_core.sampling import Sampling
from visualize import figures, views
from visualize.components.plot_view import PlotView
from visualize.components.token_view import TokenView
from visualize.panels.examples import EXAMPLES, HEAP, Example
from visualize.panels.studio import Studio

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task

log = logging.getLogger(__name__)

COMPUTE = "compute"
"""Events of this concurrency id run one at a time, so that no run spoils another's clock."""

CHARTS = {
    "acceptance": "Acceptance length per step, by who wrote the tokens",
    "time": "Tokens against time",
    "speedup": "Speedup compared with plain decoding, at each token",
    "choices": "What the method chose: nodes checked and draft passes per step",
}
EXPECTED = "Yesterday's version, an outline: copied where the output follows it. It never changes the text."
LONGEST_PREDICTION = 100_000
RECORDED = ("heap-ouroboros.json", "heap-autoregressive.json")


def _make_task(
    prompt: str,
    method: str,
    knobs: dict[str, Any],
    chat: bool,
    count: Any,
    sampling: dict[str, Any],
    prediction: str = "",
    record: bool = False,
) -> Task:
    from ouroboros_core.decoding.generation import Task

    if not isinstance(prompt, str) or not prompt:
        raise InvalidInput("the prompt is empty; write at least one character, or choose an example")
    if not isinstance(prediction, str) or len(prediction) > LONGEST_PREDICTION:
        what = f"{len(prediction)} characters" if isinstance(prediction, str) else f"a {type(prediction).__name__}"
        raise InvalidInput(f"prediction must be a text of at most {LONGEST_PREDICTION} characters, got {what}")
    if (
        isinstance(count, bool)
        or not isinstance(count, int | float)
        or not math.isfinite(count)
        or count % 1
        or not 1 <= count <= 1024
    ):
        raise InvalidInput(f"max_new_tokens must be a whole number between 1 and 1024, got {count}")
    kind = methods.get(method)
    chosen = Sampling.parse(sampling)
    assert isinstance(chosen, Sampling)
    more: dict[str, Any] = {"prediction": prediction, "record": bool(record)}
    return Task(prompt, method, kind.Hyperparameters.parse(knobs), chosen, int(count), bool(chat), **more)


def add_endpoint(studio: Studio) -> None:
    """The endpoint /generate, for programs."""

    def generate(
        prompt: str,
        method: str = methods.DEFAULT,
        knobs: dict = {},  # type: ignore[type-arg]  # noqa: B006 - gradio reads the default, nobody changes it
        chat: bool = True,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        compare: bool = True,
        acceptance: str = "match",
        prediction: str = "",
        record: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Continue a prompt. Values arrive while it runs; the last one contains the trace.

        Each value is {text, done}. The last adds tokens_per_second; speedup over plain decoding, measured (null without
        compare); identical (to plain decoding; null under
        rejection sampling); difference (where, and whether rounding explains it); and trace, one JSON object with `steps`.
        """
        import json

        from ouroboros_core.decoding import metrics

        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "acceptance": acceptance}
        try:
            text = ""
            task = _make_task(prompt, method, knobs or {}, chat, max_new_tokens, sampling, prediction, record)
            for update in studio.run(task, compare, charts=False):
                if "trace" in update:
                    trace, baseline, difference = (update[name] for name in ("trace", "baseline", "difference"))
                    comparable = baseline is not None and not task.sampling.rejects
                    yield {
                        "text": trace.text,
                        "done": True,
                        "tokens_per_second": metrics.tokens_per_second(trace),
                        "speedup": metrics.speedup(trace, baseline) if baseline else None,
                        "identical": trace.tokens == baseline.tokens if comparable else None,
                        "difference": difference.sentence(trace.pieces | baseline.pieces) if difference else None,
                        "trace": json.loads(trace.to_json()),
                    }
                elif update.get("view", {}).get("steps") and not update["view"].get("tiles"):
                    text += "".join(token["text"] for step in update["view"]["steps"] for token in step["tokens"])
                    yield {"text": text, "done": False}
        except OuroborosError as error:
            raise gr.Error(str(error), print_exception=False) from None

    gr.api(generate, api_name="generate", concurrency_id=COMPUTE, concurrency_limit=1)


def _knob_component(knob: Knob, automatic: bool = False) -> Any:
    """automatic: whether the method sets the knob by itself, so that it shows the value which it would have instead."""
    label = knob.name.replace("_", " ")
    if knob.choices:
        return gr.Dropdown(list(knob.choices), value=knob.default, label=label, info=knob.help)
    if knob.kind is bool:
        return gr.Checkbox(value=bool(knob.default), label=label, info=knob.help)
    step = 1 if knob.kind is int else 0.05
    value = knob.default if knob.fixed is None else knob.fixed
    return gr.Slider(knob.low, knob.high, value=value, step=step, label=label, info=knob.help, interactive=not automatic)


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
        return PlotView({"seq": 0, "figure": figure}, label=CHARTS[name], elem_id=f"chart-{name}")

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
                    self.knobs[method.id, knob.name] = _knob_component(knob, automatic=knob.fixed is not None)
                if method.takes_prediction:
                    self.predictions[method.id] = gr.Textbox(
                        "", label="Expected text", info=EXPECTED, lines=3, max_lines=8, elem_id=f"prediction-{method.id}"
                    )
            self.groups.append(group)
        self.count = gr.Slider(8, 512, value=128, step=8, label="max new tokens", info="How far to go on.")
        self.chat = gr.Checkbox(False, label="chat template", info="Put the model's chat template around the prompt.")
        with gr.Accordion("Sampling", open=False):
            self.sampling = {name: _sampling_component(knob) for name, knob in Sampling.knobs().items()}

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
            lambda chosen: [gr.Group(visible=chosen == i) for i in ids], self.method, self.groups, queue=False, **private
        )
        for owner, box in self.automatic.items():
            settable = [self.knobs[owner, name] for name in methods.get(owner).Hyperparameters.fixed()]
            box.change(_switch(len(settable)), box, settable, queue=False, **private)
        given = (self.sampling, self.predictions, self.automatic, self.knobs)
        inputs = [self.prompt, self.method, self.chat, self.count, *(one for group in given for one in group.values())]
        outputs = [self.view, *(self.charts[name] for name in CHARTS)]
        running = self.go.click(
            self._generate, inputs, outputs, concurrency_id=COMPUTE, concurrency_limit=1, trigger_mode="once", **private
        )
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

    def _generate(self, prompt: str, method: str, chat: bool, count: float, *values: Any) -> Iterator[Any]:
        remaining = iter(values)
        sampling = {name: next(remaining) for name in self.sampling}
        predictions = {name: next(remaining) for name in self.predictions}
        automatic = {name: next(remaining) for name in self.automatic}
        knobs = {name: value for (owner, name), value in zip(self.knobs, remaining, strict=True) if owner == method}
        if automatic.get(method):
            knobs |= dict.fromkeys(methods.get(method).Hyperparameters.fixed(), AUTO)
        try:
            task = _make_task(prompt, method, knobs, chat, count, sampling, predictions.get(method, ""))
            yield from self._stream(task)
        except OuroborosError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def _stream(self, task: Task) -> Iterator[Any]:
        """Outputs that did not change are yielded again as they were: the difference that Gradio sends is then empty."""
        view: dict[str, Any] = {}
        drawn: dict[str, Any] = {name: {} for name in CHARTS}
        for seq, update in enumerate(self.studio.run(task, compare=True), 1):
            view = update.get("view", view)
            drawn |= {name: {"seq": seq, "figure": figure} for name, figure in update.get("charts", {}).items()}
            yield view, *drawn.values()

    @staticmethod
    def _stopped() -> dict[str, Any]:
        """What the token view is told when a run was stopped: the rest stays as it is."""
        return {"seq": time.time_ns(), "stopped": True}


def _switch(count: int) -> Callable[[bool], Any]:
    """What `auto` does to so many sliders."""

    def switch(automatic: bool) -> Any:
        updates = [gr.update(interactive=not automatic) for _ in range(count)]
        return updates if count > 1 else updates[0]

    return switch


def _note(example: Example) -> str:
    return f"{example.label}: {example.note}."


def _sampling_component(knob: Knob) -> Any:
    label = knob.name.replace("_", " ")
    if knob.choices:
        return _knob_component(knob)
    if knob.name in ("seed", "top_k"):
        return gr.Number(knob.default, precision=0, minimum=knob.low, maximum=knob.high, label=label, info=knob.help)
    low = 0.05 if knob.low_is_open else knob.low
    return gr.Slider(low, knob.high, value=knob.default, step=0.05, label=label, info=knob.help)
