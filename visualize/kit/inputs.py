"""The inputs of a run: prompt, method, settings, length and sampling; a link writes them."""

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
from visualize.kit import plots
from visualize.kit.address import changed, restored
from visualize.kit.ask_view import AskView
from visualize.kit.events import PRIVATE, errors_on_page, field
from visualize.kit.setting_input import CHAT_TEMPLATE, NOTHING_YET, sampling_component
from visualize.kit.settings_view import MethodSettings, method_choice, of_link
from visualize.run import permalink
from visualize.run.components import LinkView
from visualize.run.permalink import Inputs
from visualize.run.request import RunRequest
from visualize.server.limits import flag
from visualize.watch.components import MemoryView, MethodCards
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
"""The methods with a card: the baseline, the idea, and the fastest."""
SETTINGS = '<details class="ouro-settings"><summary>Settings</summary></details>'
"""A fold: the settings are visible while it is open (watch.css)."""
BEFORE = "Click one to run it with the models at the top right. What plays below is recorded."
"""The note on examples, until a visitor writes something."""
RUN = "() => { document.querySelector('#generate')?.click(); }"
"""Runs an example at once."""
FOLLOW = """(json, prompt, chat) => {
  const { follows } = typeof json === "string" ? JSON.parse(json) : json;
  return follows && prompt === follows.before ? [follows.prompt, follows.chat] : [prompt, chat];
}"""
"""Returns prompt and chat of a view's `follows`, if the prompt is still the one before."""

EDITED = "() => [true, '']"
"""Returns chat template and note when a visitor writes something."""

CHOOSE = "(method, text) => [JSON.stringify({ ...JSON.parse(text), method })]"
"""Shows the settings of the chosen method."""

GATHER = "(...values) => [JSON.stringify(values)]"
"""Returns all inputs as the value of one component."""


def gathered_values(text: Any, count: int) -> list[Any]:
    """Return the values of `count` inputs that `GATHER` sent; raises InvalidInput."""
    try:
        values = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != count:
        raise InvalidInput("the page sent no inputs: reload it")
    return values


class RunInputs:
    """The components; built in two columns of a panel, then wired."""

    def __init__(self, most_tokens: int, first: Trace) -> None:
        """
        most_tokens  of an answer
        first        the run that plays at first; the box has its prompt
        """
        self.most_tokens, self.first = most_tokens, first

    def build_prompt(self) -> None:
        """Build the prompt with its buttons, and above it the view of a link."""
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
        """Build the chips of examples, which run at once."""
        with gr.Row(elem_classes="ouro-chips"):
            self.chips = [
                gr.Button(e.label, size="sm", elem_classes="ouro-chip", min_width=0)
                for e in EXAMPLES
            ]
            self.note = gr.Markdown(BEFORE, elem_classes="ouro-note")

    def build_method(self) -> None:
        """Build the method: three cards, the list of all, and the fold of the settings."""
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
        """Build settings of all methods (the chosen one's are visible), length, and switches."""
        kinds = list(methods.available().values())
        self.settings = MethodSettings(kinds, methods.DEFAULT, elem_id="method-settings")
        fewest, longest = permalink.FEWEST, min(permalink.MOST, self.most_tokens)
        self.count = gr.Slider(
            fewest,
            longest,
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
        """Return the components that a link describes, in its order."""
        first = [self.prompt, self.method, self.chat, self.generation_config, self.count]
        return [*first, *self.sampling.values(), self.settings]

    @property
    def gathered(self) -> list[Any]:
        """Return the components whose values `read` takes, in its order."""
        return [*self.components, self.record, self.warm]

    def wire(self) -> None:
        """Wire the inputs to each other."""
        self.ask.value = self.ask.postprocess([component.value for component in self.gathered])
        # First of all events of a change: Gradio's script runs them one after another, and waits
        # for the server's answer.
        changes = [component.change for component in self.gathered]
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
        # Decided in the browser, so that no run can come before it: only an example has a raw
        # prompt and a note.
        edited(None, None, [self.chat, self.note], js=EDITED, **PRIVATE)
        self.cards.choose_method(chosen, None, self.method, queue=False, **PRIVATE)
        inputs = [self.method, self.settings]
        self.method.change(None, inputs, self.settings, js=CHOOSE, **PRIVATE)
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
        """Return the event of a click: the browser packs all values into one component.

        An event with many inputs costs the browser time at every update of a run. Every change
        also packs them, for events without a click; a run does not rely on that having arrived.
        """
        return self.go.click(None, self.gathered, self.ask, js=GATHER, **PRIVATE)

    def read(self, gathered: Any) -> tuple[Task, bool]:
        """Return the task of the inputs, and whether it starts warm; raises InvalidInput.

        gathered: the value of `ask`, JSON text.
        """
        *values, record, warm = gathered_values(gathered, len(self.gathered))
        return self._task(values, record), flag("warm", warm)

    def _task(self, values: Sequence[Any], record: bool) -> Task:
        prompt, method, chat, generation_config, count, *sampling, settings = values
        # A setting stays 'auto' until a visitor fixes it.
        choice = method_choice(settings, methods.get(method))
        request = RunRequest(
            prompt,
            method,
            choice.settings,
            chat,
            count,
            dict(zip(self.sampling, sampling, strict=True)),
            choice.predicted,
            record,
            generation_config,
        )
        return request.task(self.most_tokens)

    def follow(self, view: Any, showing: gr.events.Dependency) -> None:
        """Set prompt and chat template as in the recorded run that the event `showing` shows.

        Not if a visitor has written something else meanwhile, which the browser decides.
        """
        prompt = [self.prompt, self.chat]
        showing.then(None, [view, *prompt], prompt, js=FOLLOW, **PRIVATE)

    def write(self, inputs: Inputs) -> list[Any]:
        """Return updates of the components to the inputs of a link; others keep their values."""
        updates: list[Any] = [gr.update(value=inputs.prompt) if inputs.prompt else gr.skip()]
        switches = (inputs.method, inputs.chat, inputs.generation_config)
        updates += [gr.update(value=value) for value in switches]
        updates.append(
            gr.skip()
            if inputs.max_new_tokens > self.most_tokens
            else gr.update(value=inputs.max_new_tokens)
        )
        updates += [
            gr.update(value=inputs.sampling.get(name, setting.default))
            for name, setting in Sampling.settings().items()
        ]
        return [*updates, of_link(methods.get(inputs.method), inputs.settings)]

    def attach(self, blocks: gr.Blocks, view: Any, charts: Sequence[Any]) -> None:
        """Take over the inputs of a link when the page opens; the run is offered, not begun.

        On a page that was reloaded or returned to, the browser restores the stored inputs.
        """
        private: dict[str, Any] = {**PRIVATE, "queue": False}

        def linked(request: gr.Request) -> Any:
            return self._linked(request, len(charts))

        settings = self.gathered
        views = [view, *charts]
        loaded = blocks.load(
            linked, outputs=[self.link, self.note, *self.components, *views], **private
        )
        blank = {
            "seq": 1,
            "run": "",
            "figure": plots.empty("Charts are not kept when the page is left."),
        }
        back = restored(len(settings), len(charts), blank)
        loaded.then(None, js=back, outputs=[*settings, *views, self.link, self.note], **private)

    def _linked(self, request: gr.Request, charts: int) -> Any:
        """Return values of link view, note on an example, inputs, token view and charts."""
        link = permalink.read(dict(request.query_params), self.most_tokens)
        if link is None:
            return [gr.skip() for _ in range(3 + len(self.components) + charts)]
        inputs, wrong = link
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
        chart = {"seq": seq, "run": "", "figure": plots.empty(NOTHING_YET)}
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
        prompt = {
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
            {**empty, **prompt},
            *[chart] * charts,
        ]


@errors_on_page()
def learns(method: str) -> bool:
    """Return whether a method has a memory of earlier runs."""
    return Need.MEMORY in methods.get(method).uses


def chosen(event: gr.EventData) -> str:
    """Return the method of a card."""
    with errors_on_page():
        return field(event, "method", str)


def _note(example: Example) -> str:
    return f"{example.label}: {example.note}."
