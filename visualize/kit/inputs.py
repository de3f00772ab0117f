"""What a run is described by: prompt, method, its settings, length and sampling; read from the
page, and written to it by a link."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from visualize.kit.address import changed, kept
from visualize.kit.events import PRIVATE, errors_on_page, field
from visualize.kit.plain_views import AskView, LinkView, MemoryView, MethodCards
from visualize.kit.setting_input import CHAT_TEMPLATE, NOTHING_YET, sampling_component
from visualize.kit.settings_view import MethodSettings, method_choice, of_link
from visualize.run import figures, permalink
from visualize.run.permalink import Inputs
from visualize.run.request import RunRequest
from visualize.server.limits import flag
from visualize.watch.examples import EXAMPLES, Example

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.trace.trace import Trace


CARDS = (
    {"id": "autoregressive", "name": "Plain", "line": "One forward pass for every token."},
    {
        "id": "speculative",
        "name": "Speculative",
        "line": "A small draft model guesses ahead.",
    },
    {
        "id": "union",
        "name": "All sources",
        "line": "Drafts, copies and candidates in one tree.",
    },
)
"""The methods that stand beside the list of all: the baseline, the idea, and the fastest."""
SETTINGS = '<details class="ouro-settings"><summary>Settings</summary></details>'
"""A fold: the settings are seen as long as it is open (page.css)."""
BEFORE = "Click one to run it with the models at the top right. What plays below is recorded."
"""Beside the examples, until a visitor writes something."""
RUN = "() => { document.querySelector('#generate')?.click(); }"
"""An example runs at once."""
FOLLOW = """(json, prompt, chat) => {
  const { follows } = typeof json === "string" ? JSON.parse(json) : json;
  return follows && prompt === follows.before ? [follows.prompt, follows.chat] : [prompt, chat];
}"""
"""What `follows` of a view says, if the prompt is still the one before."""

EDITED = "() => [true, '']"
"""Chat template and note, as soon as a visitor writes something."""

CHOOSE = "(method, text) => [JSON.stringify({ ...JSON.parse(text), method })]"
"""Shows the settings of the chosen method."""

GATHER = "(...values) => [JSON.stringify(values)]"
"""All inputs as the value of one component."""


def gathered_values(text: Any, count: int) -> list[Any]:
    """What `GATHER` sent of so many inputs; raises InvalidInput for anything else."""
    try:
        values = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != count:
        raise InvalidInput("the page sent no inputs: reload it")
    return values


class RunInputs:
    """The components; built in two columns of a panel, then wired."""

    def __init__(self, most: int, first: Trace) -> None:
        """most: tokens of an answer; first: the run that plays before a visitor has made one, whose
        prompt the box holds."""
        self.most, self.first = most, first

    def build_prompt(self) -> None:
        """The prompt with the buttons beside it, and above it what a link holds."""
        self.link = LinkView("generate", elem_id="link-view")
        with gr.Row(elem_classes="ouro-prompt-row"):
            self.prompt = gr.Textbox(
                self.first.prompt.text,
                label="Prompt",
                show_label=False,
                placeholder="Ask something. Enter generates, Shift+Enter breaks the line.",
                container=False,
                lines=2,
                max_lines=4,
                elem_id="prompt",
            )
            with gr.Row(elem_classes="ouro-buttons"):
                self.go = gr.Button("Generate", variant="primary", elem_id="generate", min_width=0)
                self.stop = gr.Button("Stop", elem_id="stop", min_width=0)
                # Makes Enter in the prompt a click of Generate, and gathers the inputs.
                self.ask = AskView("prompt", elem_id="ask-view")

    def build_examples(self) -> None:
        """Chips that run at once."""
        with gr.Row(elem_classes="ouro-chips"):
            self.chips = [
                gr.Button(e.label, size="sm", elem_classes="ouro-chip", min_width=0)
                for e in EXAMPLES
            ]
            self.note = gr.Markdown(BEFORE, elem_classes="ouro-note")

    def build_method(self) -> None:
        """The method: three cards, and the list of all; beside them the fold of the settings."""
        with gr.Row(elem_classes="ouro-method-row"):
            self.cards = MethodCards(CARDS, methods.DEFAULT, elem_id="method-cards")
            choices = [(m.name, m.id) for m in methods.available().values()]
            self.method = gr.Dropdown(
                choices,
                value=methods.DEFAULT,
                label="Method",
                show_label=False,
                container=False,
                elem_id="method",
                min_width=0,
            )
            gr.HTML(SETTINGS, elem_classes="ouro-settings-fold", padding=False)

    def build_settings(self) -> None:
        """The settings of all methods, those of the chosen one shown; length, chat template,
        recording, warm start; sampling."""
        kinds = list(methods.available().values())
        self.settings = MethodSettings(kinds, methods.DEFAULT, elem_id="method-settings")
        few, most = permalink.FEWEST, min(permalink.MOST, self.most)
        self.count = gr.Slider(
            few,
            most,
            value=128,
            step=8,
            label="Maximum new tokens",
            info="How far to go on.",
        )
        self.chat = gr.Checkbox(
            self.first.prompt.chat, label="Chat template", info=CHAT_TEMPLATE, elem_id="chat"
        )
        self.generation_config = gr.Checkbox(
            True,
            label="Checkpoint's settings",
            info="Apply the penalties, bans and lengths of the model's generation_config.json.",
            elem_id="generation-config",
        )
        self.record = gr.Checkbox(
            True,
            label="Record probabilities",
            info="Keep what both models thought at each position; not timed.",
            elem_id="record",
        )
        self.warm = gr.Checkbox(
            False,
            label="Warm start",
            info="Begin with what the method kept of your own earlier runs.",
            elem_id="warm",
            visible=learns(methods.DEFAULT),
        )
        self.learned = MemoryView(elem_id="memory", visible=learns(methods.DEFAULT))
        with gr.Accordion("Sampling", open=False):
            self.sampling = {
                name: sampling_component(setting) for name, setting in Sampling.settings().items()
            }

    @property
    def components(self) -> list[Any]:
        """What a link describes, in this order."""
        first = [self.prompt, self.method, self.chat, self.generation_config, self.count]
        return [*first, *self.sampling.values(), self.settings]

    @property
    def gathered(self) -> list[Any]:
        """What `read` is given the values of, in this order."""
        return [*self.components, self.record, self.warm]

    def wire(self) -> None:
        """What the inputs do to each other."""
        self.ask.value = self.ask.postprocess([one.value for one in self.gathered])
        # The first of what a change does: Gradio's script does one after the other, and waits for
        # the server's answer.
        changes = [one.change for one in self.gathered]
        gr.on(changes, None, self.gathered, self.ask, js=changed(), **PRIVATE)
        edited = self.ask.prompt_edit
        for chip, example in zip(self.chips, EXAMPLES, strict=True):
            filled = chip.click(
                lambda e=example: (e.prompt, e.chat, _note(e)),
                outputs=[self.prompt, self.chat, self.note],
                queue=False,
                **PRIVATE,
            )
            filled.then(None, js=RUN, **PRIVATE)
        # Decided in the browser, so that no run can come before it: a raw prompt and the words on
        # it are those of an example.
        edited(None, None, [self.chat, self.note], js=EDITED, **PRIVATE)
        self.cards.choose_method(chosen, None, self.method, queue=False, **PRIVATE)
        both = [self.method, self.settings]
        self.method.change(None, both, self.settings, js=CHOOSE, **PRIVATE)
        self.method.change(
            lambda method: [
                gr.update(visible=learns(method)),
                gr.update(visible=learns(method)),
                {"method": method},
            ],
            self.method,
            [self.warm, self.learned, self.cards],
            queue=False,
            **PRIVATE,
        )

    def gather(self) -> gr.events.Dependency:
        """A click of Generate: the browser packs all values into one component; the run follows.

        An event with many inputs costs the browser time at every update of a run. Every change
        packs them, too, for what needs no click; a run does not rely on that having arrived.
        """
        return self.go.click(None, self.gathered, self.ask, js=GATHER, **PRIVATE)

    def read(self, gathered: Any) -> tuple[Task, bool]:
        """The task that the inputs describe, and whether it starts warm; raises InvalidInput.

        gathered: the value of `ask`, JSON text.
        """
        *values, record, warm = gathered_values(gathered, len(self.gathered))
        return self._task(values, record), flag("warm", warm)

    def _task(self, values: Sequence[Any], record: bool) -> Task:
        prompt, method, chat, own, count, *sampling, settings = values
        # A setting that is 'auto', as most are until a visitor fixes them, stays so.
        asked = method_choice(settings, methods.get(method))
        request = RunRequest(
            prompt,
            method,
            asked.settings,
            chat,
            count,
            dict(zip(self.sampling, sampling, strict=True)),
            asked.predicted,
            record,
            own,
        )
        return request.task(self.most)

    def follow(self, view: Any, showing: gr.events.Dependency) -> None:
        """Where one recorded run takes another's place, the prompt and the chat template become
        those of the run that plays now, unless a visitor has written something else meanwhile: the
        browser decides, when the run is there."""
        here = [self.prompt, self.chat]
        showing.then(None, [view, *here], here, js=FOLLOW, **PRIVATE)

    def write(self, inputs: Inputs) -> list[Any]:
        """Updates of the inputs, in their order, that make them those of a link; what it does not
        name keeps its value."""
        updates: list[Any] = [gr.update(value=inputs.prompt) if inputs.prompt else gr.skip()]
        chosen = (inputs.method, inputs.chat, inputs.generation_config)
        updates += [gr.update(value=value) for value in chosen]
        updates.append(
            gr.skip()
            if inputs.max_new_tokens > self.most
            else gr.update(value=inputs.max_new_tokens)
        )
        updates += [
            gr.update(value=inputs.sampling.get(name, setting.default))
            for name, setting in Sampling.settings().items()
        ]
        return [*updates, of_link(methods.get(inputs.method), inputs.settings)]

    def attach(self, blocks: gr.Blocks, view: Any, charts: Sequence[Any]) -> None:
        """When the page is opened, take over the inputs of a link, whose run nobody has made yet:
        it is offered, not begun.

        When it is reloaded or gone back to, what was kept in the browser comes back, in the
        browser.
        """
        private: dict[str, Any] = {**PRIVATE, "queue": False}

        def linked(request: gr.Request) -> Any:
            return self._linked(request, len(charts))

        settings = self.gathered
        shown = [view, *charts]
        loaded = blocks.load(
            linked, outputs=[self.link, self.note, *self.components, *shown], **private
        )
        blank = {
            "seq": 1,
            "run": "",
            "figure": figures.empty("Charts are not kept when the page is left."),
        }
        back = kept(len(settings), len(charts), blank)
        loaded.then(None, js=back, outputs=[*settings, *shown, self.link, self.note], **private)

    def _linked(self, request: gr.Request, charts: int) -> Any:
        """What the link view, the note on an example, the inputs, the token view and so many charts
        show."""
        found = permalink.read(dict(request.query_params), self.most)
        if found is None:
            return [gr.skip() for _ in range(3 + len(self.components) + charts)]
        inputs, wrong = found
        lines = ["The prompt and the settings are those of the link. Nothing was run yet."]
        lines += [f"One value of the link is left out: {error}." for error in wrong]
        if not inputs.prompt:
            return [
                {"lines": lines[1:], "offer": False},
                gr.skip(),
                *self.write(inputs),
                *(gr.skip() for _ in range(1 + charts)),
            ]
        seq = time.time_ns()
        chart = {"seq": seq, "run": "", "figure": figures.empty(NOTHING_YET)}
        empty = {
            "seq": seq,
            "run": "linked",
            "from": 0,
            "steps": [],
            "done": True,
            "unsaved": True,
            "tiles": [],
            "numbers": [],
        }
        shown = {
            "prompt": inputs.prompt,
            "chat": inputs.chat,
            "badge": "",
            "title": "",
            "status": NOTHING_YET,
        }
        return [
            {"lines": lines, "offer": True},
            "",
            *self.write(inputs),
            {**empty, **shown},
            *[chart] * charts,
        ]


@errors_on_page()
def learns(method: str) -> bool:
    """Whether a method has something to keep from run to run."""
    return Need.MEMORY in methods.get(method).uses


def chosen(event: gr.EventData) -> str:
    """The method of a card."""
    with errors_on_page():
        return field(event, "method", str)


def _note(example: Example) -> str:
    return f"{example.label}: {example.note}."
