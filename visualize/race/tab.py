"""Race: two to four lanes run one after another, then replay together on one clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from visualize.kit import labels
from visualize.kit.events import (
    PRIVATE,
    errors_on_page,
    pressable_from,
    pressable_until_the_end,
)
from visualize.kit.setting_input import CHAT_TEMPLATE, sampling_component
from visualize.kit.settings_view import first_value
from visualize.race.components import RaceView
from visualize.race.job import RaceJob, RaceUpdate
from visualize.run.request import RunRequest
from visualize.run.view import View
from visualize.server.jobs import Waiting
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner
from visualize.watch.examples import EXAMPLES

NONE = "none"
MOST_TOKENS = 256
"""Longest lane."""
LANES = ("speculative", "ouroboros", "union")
"""Methods beside plain decoding before a visitor chooses, as in the recorded race."""


@errors_on_page()
def _help(method: str) -> str:
    """Return the help for the settings of a lane: one line each."""
    if method == NONE:
        return ""
    kind = methods.get(method)
    settings = kind.Hyperparameters.settings().values()
    lines = [f"- {setting.help} `{setting.name}=` {setting.allowed}" for setting in settings]
    lines = lines or ["It has no settings."]
    paper = ["- All settings as its paper has them: `published`"] if kind.published else []
    return "\n".join([f"**{kind.name}**\n", *paper, *lines])


def _example(method: str) -> str:
    """Return the placeholder of a lane's settings: one setting as it is written."""
    kind = methods.available().get(method)
    settings = kind.Hyperparameters.settings().values() if kind else ()
    examples = [
        f"e.g. {setting.name}={first_value(setting)}".replace(",", "x") for setting in settings
    ]
    return examples[0] if examples else "none"


class RacePanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        self.runner, self.pair = runner, pair
        self.most_tokens = min(MOST_TOKENS, runner.limits.new_tokens)
        with gr.Row(elem_classes="ouro-main"):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                self._build_prompt()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                self.view = RaceView(self._before(), elem_id="race-view")
            with gr.Column(min_width=0, elem_classes="ouro-options"):
                self._build_lanes()
        self._wire()

    @staticmethod
    def _before() -> dict[str, Any]:
        status = "Fetching a recorded race …"
        return {"seq": 0, "race": "", "lanes": [], "status": status, "done": False}

    def _build_prompt(self) -> None:
        self.prompt = gr.Textbox(
            EXAMPLES[1].prompt,
            label="Prompt of a new race",
            lines=3,
            max_lines=8,
            elem_id="race-prompt",
        )
        with gr.Row(elem_classes="ouro-chips"):
            self.chips = [
                gr.Button(e.label, size="sm", elem_classes="ouro-chip", min_width=0)
                for e in EXAMPLES
            ]
        with gr.Row(elem_classes="ouro-buttons"):
            self.go = gr.Button("Race", variant="primary", elem_id="race", min_width=0)
            self.stop = gr.Button("Stop", interactive=False, elem_id="race-stop", min_width=0)

    def _build_lanes(self) -> None:
        gr.Markdown("Lane 1 is plain decoding.", elem_classes="ouro-note")
        choices = [(m.name, m.id) for m in methods.available().values() if m.proposes]
        self.lanes, self.settings, self.helps = [], [], []
        for number, chosen in enumerate(LANES, 2):
            optional = [("no lane", NONE)] if number > 2 else []
            with gr.Row(elem_classes="ouro-race-lane"):
                self.lanes.append(
                    gr.Dropdown(
                        [*optional, *choices],
                        value=chosen,
                        label=f"Lane {number}",
                        elem_id=f"lane-{number}",
                        min_width=0,
                        scale=3,
                    )
                )
                self.settings.append(
                    gr.Textbox(
                        "",
                        label=f"Settings of lane {number}",
                        placeholder=_example(chosen),
                        elem_id=f"settings-{number}",
                        min_width=0,
                        scale=2,
                    )
                )
        self.count = gr.Slider(
            8,
            self.most_tokens,
            value=64,
            step=8,
            label="Maximum new tokens of each lane",
            info="How far each may go on.",
        )
        with gr.Accordion("More", open=False):
            self.chat = gr.Checkbox(
                True, label="Chat template", info=CHAT_TEMPLATE, elem_id="race-chat"
            )
            sampling = Sampling.settings()
            self.temperature = sampling_component(sampling["temperature"])
            self.seed = sampling_component(sampling["seed"])
            for number, chosen in enumerate(LANES, 2):
                note = gr.Markdown(
                    _help(chosen), elem_classes="ouro-note", elem_id=f"settings-help-{number}"
                )
                self.helps.append(note)

    def _wire(self) -> None:
        for chip, example in zip(self.chips, EXAMPLES, strict=True):
            chip.click(
                lambda e=example: (e.prompt, e.chat),
                outputs=[self.prompt, self.chat],
                queue=False,
                **PRIVATE,
            )
        # Decided in the browser, as in Watch: a raw prompt is an example's alone.
        self.prompt.input(None, None, self.chat, js="() => true", **PRIVATE)
        for lane, box, note in zip(self.lanes, self.settings, self.helps, strict=True):
            lane.change(
                lambda method: (gr.update(placeholder=_example(method)), _help(method)),
                lane,
                [box, note],
                queue=False,
                **PRIVATE,
            )
        inputs = [
            self.pair,
            self.prompt,
            self.count,
            self.chat,
            self.temperature,
            self.seed,
            *self.lanes,
            *self.settings,
        ]
        pressable_from([self.go.click], self.stop)
        running = self.go.click(
            self._race, inputs, self.view, concurrency_limit=None, trigger_mode="once", **PRIVATE
        )
        self.stop.click(
            lambda: {"seq": time.time_ns(), "stopped": True},
            outputs=self.view,
            cancels=[running],
            queue=False,
            **PRIVATE,
        )
        pressable_until_the_end(running, self.stop)

    def _race(self, request: gr.Request, pair: str, *values: Any) -> Iterator[Any]:
        with errors_on_page():
            prompt, count, chat, temperature, seed, *chosen = values
            lanes = [
                (method, settings)
                for method, settings in zip(chosen[: len(LANES)], chosen[len(LANES) :], strict=True)
            ]
            tasks = self._tasks(
                prompt, count, chat, {"temperature": temperature, "seed": seed}, lanes
            )
            updates = self.runner.submit(RaceJob(tasks), pair=pair, visitor=visitor_id(request))
            view: View = {}
            for seq, update in enumerate(updates):
                if isinstance(update, Waiting) and not view:
                    view = _waiting_view(update.name, update.status, seq)
                elif isinstance(update, RaceUpdate):
                    view = update.view
                yield view

    def _tasks(
        self,
        prompt: str,
        count: float,
        chat: bool,
        sampling: dict[str, Any],
        lanes: Sequence[tuple[str, str]],
    ) -> list[tuple[str, Any]]:
        """Return name and task of each lane, plain decoding first; equal names get a number."""
        plain = RunRequest(prompt, "autoregressive", {}, chat, count, sampling)
        tasks = [(labels.method("autoregressive"), plain.task(self.most_tokens))]
        for number, (method, text) in enumerate(lanes, 2):
            if method == NONE:
                continue
            try:
                items = (text or "").replace(" ", "").split(",")
                written = ", ".join(filter(None, items))
                settings = methods.read_settings(methods.get(method), written)
                request = RunRequest(prompt, method, settings, chat, count, sampling)
                tasks.append((labels.lane(method, written), request.task(self.most_tokens)))
            except InvalidInput as error:
                raise InvalidInput(f"lane {number}, {labels.method(method)}: {error}") from None
        names = [name for name, _ in tasks]
        return [
            (f"{name} ({n})" if names.count(name) > 1 else name, task)
            for n, (name, task) in enumerate(tasks, 1)
        ]


def _waiting_view(name: str, status: str, seq: int) -> View:
    """Return the view of a race that waits."""
    view: View = {"race": name, "lanes": [], "badge": "waiting", "done": False}
    return view | {"seq": seq, "status": status}
