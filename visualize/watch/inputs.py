"""The inputs of a run: prompt, method, settings, length and sampling; a link writes them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.trace.file import MAX_BYTES
from visualize.gallery import runs as gallery
from visualize.kit import plots
from visualize.kit.address import changed, restored
from visualize.kit.events import PRIVATE, errors_on_page
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.run import permalink
from visualize.run.components import LinkView
from visualize.run.permalink import Inputs
from visualize.run.request import RunRequest
from visualize.server.limits import flag
from visualize.watch.examples import EXAMPLES
from visualize.watch.families import families
from visualize.watch.settings_view import NOTHING_YET, RunSettings, merged, run_choice

CARDS = (
    {"id": "autoregressive", "name": "Plain", "line": "A pass of the large model for every token."},
    {"id": "speculative", "name": "Speculative", "line": "A small draft model guesses ahead."},
    {"id": "ouroboros", "name": "Ouroboros", "line": "Drafts phrases, and appends known ones."},
    {"id": "union", "name": "Union", "line": "Drafts, copies and candidates in one tree."},
)
"""The methods with a card: the baseline, the idea, the paper, and the fastest."""
SETTINGS = (
    '<details class="ouro-settings"><summary class="ouro-framed ouro-press ouro-strong">Settings '
    '<span class="ouro-settings-count"></span></summary></details>'
)
"""A fold: the settings are visible while it is open (watch.css)."""
FILL = """(json, now) => {
  const { prompt, settings } = JSON.parse(json);
  return [prompt, settings ? JSON.stringify(settings) : now];
}"""
"""Returns the prompt of an example, and its settings or those as they are."""
RUN = "() => { document.querySelector('#generate')?.click(); }"
"""Runs the inputs."""
GATHER = "(...values) => [JSON.stringify(values)]"
"""Returns all inputs as the value of one component."""


class AskView(JsonHTML):
    """The keys and buttons of a prompt: Enter asks, an empty prompt is pointed out, and either
    Generate or Stop is shown. The button names what it would change beside the shown run.

    Value: the values of all inputs, which the view does not show. field: the id of the prompt's
    box."""

    VIEW = markup("watch/ask_view")


class MethodCards(JsonHTML):
    """Cards of methods, and a sheet of all. A click runs the prompt in the box; if a recorded run
    is shown and one of this prompt and method exists, it triggers `choose_method` with both.

    Value: {lacking}, by method what the models of the page lack for it; such a method is hidden.

    cards     {id, name, line} of each card
    families  {title, line, methods} of each family of the sheet
    recorded  the methods with a recorded run by prompt
    """

    VIEW = markup("watch/method_cards", "choose_method")


class ExampleChips(JsonHTML):
    """Chips of example prompts. A click triggers `choose_example`.

    Value: {prompt, settings}, those of the last click; settings are a value of `RunSettings`, or
    null for those as they are. examples: the same with label and note, of each chip."""

    VIEW = markup("watch/example_chips", "choose_example")


class MemoryView(JsonHTML):
    """Buttons for the memory of a method. Triggers `save_memory`, and `load_memory` with the name
    and text of a file of at most `limit` bytes.

    Value: {seq, said}, with a file also {name, type, text}."""

    VIEW = markup("watch/memory_view", "save_memory", "load_memory")


class FaultView(JsonHTML):
    """Why a run could not be made, beside its button. Value: {seq, words}."""

    VIEW = markup("kit/fault_view")


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
    """The components; built in the parts of a panel, then wired."""

    def __init__(self, most_tokens: int, first: str) -> None:
        """
        most_tokens  of an answer
        first        the prompt in the box: that of the recorded run that plays at first
        """
        self.most_tokens, self.first = most_tokens, first

    def build_prompt(self) -> None:
        """Build the prompt with its buttons, and above it the view of a link."""
        self.link = LinkView(button="generate", elem_id="link-view")
        with gr.Row(elem_classes="ouro-prompt-row"):
            self.prompt = gr.Textbox(
                self.first,
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
        self.ask = AskView(field="prompt", elem_id="ask-view")
        self.fault = FaultView(padding=False, elem_id="fault-view")

    def build_examples(self) -> None:
        """Build the chips of examples, which run at once."""
        settings = {
            example.label: merged(methods.get(example.method), example.settings, {})
            for example in EXAMPLES
            if example.method
        }
        chips = [asdict(e) | {"settings": settings.get(e.label)} for e in EXAMPLES]
        self.chips = ExampleChips(examples=chips, padding=False, elem_id="example-chips")

    def build_method(self) -> None:
        """Build the method: the cards, the sheet of all, and the fold of the settings."""
        with gr.Row(elem_classes="ouro-method-row"):
            self.cards = MethodCards(
                {"lacking": {}},
                cards=CARDS,
                families=families(),
                recorded=gallery.methods_by_prompt(),
                padding=False,
                elem_id="method-cards",
            )
            gr.HTML(SETTINGS, elem_classes="ouro-settings-fold", padding=False)

    def build_settings(self) -> None:
        """Build the settings of the chosen method and of every run."""
        kinds = list(methods.available().values())
        self.settings = RunSettings(
            kinds, methods.DEFAULT, self.most_tokens, elem_id="run-settings"
        )
        self.learned = MemoryView(limit=MAX_BYTES, padding=False, elem_id="memory")

    @property
    def components(self) -> list[Any]:
        """Return the components that hold the inputs; `read` takes their values in this order."""
        return [self.prompt, self.settings]

    def wire(self) -> None:
        self.ask.value = self.ask.postprocess([component.value for component in self.components])
        # First of all events of a change: Gradio's script runs them one after another, and waits
        # for the server's answer.
        changes = [component.change for component in self.components]
        gr.on(changes, None, self.components, self.ask, js=changed(), **PRIVATE)
        filled = self.chips.choose_example(
            None, [self.chips, self.settings], self.components, js=FILL, **PRIVATE
        )
        filled.then(None, js=RUN, **PRIVATE)

    def gather(self) -> gr.events.Dependency:
        """Return the event of a click: the browser packs all values into one component.

        An event with many inputs costs the browser time at every update of a run. Every change
        also packs them, for events without a click; a run does not rely on that having arrived.
        """
        return self.go.click(None, self.components, self.ask, js=GATHER, **PRIVATE)

    def read(self, gathered: Any) -> tuple[Task, bool]:
        """Return the task of the inputs, and whether it starts warm; raises InvalidInput.

        gathered: the value of `ask`, JSON text.
        """
        prompt, settings = gathered_values(gathered, len(self.components))
        choice = run_choice(settings)
        run = choice.run
        request = RunRequest(
            prompt,
            choice.method,
            choice.settings,
            run["chat"],
            run["max_new_tokens"],
            choice.sampling,
            choice.predicted,
            run["record"],
            run["generation_config"],
        )
        return request.task(self.most_tokens), flag("warm", run["warm"])

    def write(self, inputs: Inputs) -> list[Any]:
        """Return updates of the components to the inputs of a link; others keep their values."""
        run = inputs.asked["run"]
        if inputs.max_new_tokens > self.most_tokens:
            del run["max_new_tokens"]
        prompt = gr.update(value=inputs.prompt) if inputs.prompt else gr.skip()
        kind = methods.get(inputs.method)
        settings = kind.Hyperparameters().model_dump() | inputs.settings
        return [prompt, merged(kind, settings, run)]

    def attach(self, blocks: gr.Blocks, view: Any, charts: Sequence[Any]) -> None:
        """Take over the inputs of a link when the page opens; the run is offered, not begun.

        On a page that was reloaded or returned to, the browser restores the stored inputs.
        """
        private: dict[str, Any] = {**PRIVATE, "queue": False}

        def linked(request: gr.Request) -> Any:
            return self._linked(request, len(charts))

        inputs, views = self.components, [view, *charts]
        loaded = blocks.load(linked, outputs=[self.link, *inputs, *views], **private)
        blank = {
            "seq": 1,
            "run": "",
            "figure": plots.empty("Charts are not kept when the page is left."),
        }
        back = restored(len(inputs), len(charts), blank)
        loaded.then(None, js=back, outputs=[*inputs, *views, self.link], **private)

    def _linked(self, request: gr.Request, charts: int) -> Any:
        """Return values of link view, inputs, token view and charts."""
        link = permalink.read(dict(request.query_params), self.most_tokens)
        if link is None:
            return [gr.skip() for _ in range(2 + len(self.components) + charts)]
        inputs, wrong = link
        lines = ["The prompt and the settings are those of the link. Nothing was run yet."]
        if inputs.model:
            lines.append(f"The sender had the model {inputs.model}.")
        lines += [f"One value of the link is left out: {error}." for error in wrong]
        if not inputs.prompt:
            return [
                {"lines": lines[1:], "offer": False},
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
            *self.write(inputs),
            {**empty, **prompt},
            *[chart] * charts,
        ]


@errors_on_page()
def learns(method: str) -> bool:
    """Return whether a method has a memory of earlier runs."""
    return Need.MEMORY in methods.get(method).uses
