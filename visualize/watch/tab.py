"""Watch: a prompt, a method with its settings, and the text, coloured by the tokens' origins."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Task
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.settings import AUTO
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from visualize.gallery import runs as gallery
from visualize.kit import labels, plots
from visualize.kit.events import PRIVATE, at_the_end, errors_on_page, field, refused, sent
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import MOTTO, markup
from visualize.kit.plot_view import PLOTLY, PlotView
from visualize.run import figures, permalink, saving
from visualize.run import view as views
from visualize.run.components import DetailsView, SaveView, TokenView
from visualize.run.figures import MORE_CHARTS, Chart, more_charts
from visualize.run.permalink import Inputs
from visualize.run.tour import tour
from visualize.run.view import View
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner
from visualize.watch import timing, visit
from visualize.watch.inputs import RunInputs, learns
from visualize.watch.job import RunJob
from visualize.watch.session import Order, Session
from visualize.watch.settings_view import NOTHING_YET, merged
from visualize.watch.visit import VisitRun
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

WHAT_IF = "what_if"
"""Beside the charts: the run on another machine."""
RECORDED = "java-union"
"""The recorded run on screen before any model is loaded."""
CHAT, FIXED = "chat", "fixed"
"""Acts of a notice: the last run with the chat template, after an empty answer without it; and
with fixed amounts, where the automatic choice has proposed next to nothing."""
RECORDED_SETTINGS = "recorded settings"
"""The condition of a recorded run whose settings are not those of the inputs; the drawer of the
settings says the same, see settings_view.js."""
ENDED = "() => { document.dispatchEvent(new CustomEvent('ouro:ended')); }"
"""Reports to the page's scripts that a run is over, whichever way."""


class WhatIfView(JsonHTML):
    """A run on another machine. Triggers `ask_what_if` with {machine, target, draft, batch,
    numbers} when it is visible and shows another run or another choice.

    Value: {seq, models, said, notes, rows, time, batch} or {seq, models, problem}, see
    `visualize.what_if.view`."""

    VIEW = markup("what_if/what_if_view", "ask_what_if")


class WatchPanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        """pair: the component in which a visitor chooses the models, for all tabs."""
        self.runner, self.pair = runner, pair
        trace, shown, drawn = _recorded_run(RECORDED)
        self.first = trace, gallery.baseline(RECORDED)
        self.inputs = RunInputs(runner.limits.new_tokens, trace.prompt.text)
        self.session = gr.State(Session())
        self.drawn = gr.State({})
        with gr.Row(elem_classes="ouro-main ouro-watch"):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                with gr.Row(elem_classes="ouro-mottos"):
                    gr.Markdown(MOTTO, elem_classes="ouro-motto")
                    self.models = gr.Markdown(
                        runner.models.state(), elem_id="models", elem_classes="ouro-motto"
                    )
                self.inputs.build_prompt()
                self.inputs.build_examples()
                self.inputs.build_method()
            with gr.Column(min_width=0, elem_classes="ouro-options"):
                self.inputs.build_settings()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                # A JsonHTML, drawn by `paint` in visualize/run/token_view.js. A value
                # may hold only some keys, and the steps from its `from` on.
                self.view = TokenView(shown, keep=True, asks=True, elem_id="token-view")
                self.saving = SaveView((*saving.TYPES, "link"), elem_id="save-view")
                self.visit = visit.VisitView(looks=views.legend(), padding=False, elem_id="visit")
                named = [{"id": chart.id, "label": chart.label} for chart in MORE_CHARTS]
                named.append({"id": WHAT_IF, "label": "Another machine"})
                self.details = DetailsView(
                    {"has": has_charts(trace)}, charts=named, padding=False, elem_id="details"
                )
                with gr.Row(elem_classes="ouro-charts"):
                    values = _chart_values(0, shown["run"], drawn)
                    self.charts = {
                        chart.id: self._chart(chart, value)
                        for chart, value in zip(MORE_CHARTS, values, strict=True)
                    }
                    self.what_if = WhatIfView(
                        choices=what_if_view.choices(),
                        plotly=PLOTLY,
                        looks=views.legend(),
                        padding=False,
                        elem_id=f"chart-{WHAT_IF}",
                    )
        self._wire()

    @staticmethod
    def _chart(chart: Chart, value: dict[str, Any]) -> PlotView:
        return PlotView(
            value,
            label=chart.title,
            axis=chart.axis,
            later=plots.empty("Measured when the run has ended."),
            elem_id=f"chart-{chart.id}",
        )

    def _wire(self) -> None:
        self.inputs.wire()
        # `ask` holds the values of all inputs, gathered in the browser.
        inputs = [self.session, self.pair, self.inputs.ask]
        charts = [*self.charts.values()]
        # While it runs only what changes is an output: each costs the browser time at every update.
        changing = [self.view, self.drawn]
        runs = []
        for event in (self.inputs.gather().then, self.view.run_again):
            running = event(
                self._generate,
                inputs,
                changing,
                concurrency_limit=None,
                trigger_mode="once",
                **PRIVATE,
            )
            told = [self.models, self.inputs.cards]
            running.then(self._about_models, self.pair, told, queue=False, **PRIVATE)
            ended = [self.drawn, self.session], [self.details, *charts]
            running.success(self._rest, *ended, **PRIVATE)
            shown = [self.inputs.fault, self.view, *self.charts.values()]
            running.failure(self._left, self.session, shown, queue=False, **PRIVATE)
            at_the_end(running, ENDED)
            timed = running.success(
                timing.go_on,
                self.session,
                changing,
                concurrency_limit=None,
                trigger_mode="multiple",
                **PRIVATE,
            )
            timed.success(self._rest, *ended, **PRIVATE)
            for end in (running.then, running.failure, timed.then):
                end(visit.card_of, self.session, self.visit, queue=False, **PRIVATE)
            runs.append(running)
        previewed = [self.view, self.details, *self.charts.values()]
        self.inputs.cards.choose_method(
            self._preview, self.session, previewed, queue=False, **PRIVATE
        )
        self.view.run_again(
            self._follow, self.session, self.inputs.settings, queue=False, **PRIVATE
        )
        self.inputs.stop.click(None, cancels=runs, **PRIVATE)  # what follows is a failure of theirs
        self._wire_files()
        self.what_if.ask_what_if(
            self._price,
            self.session,
            self.what_if,
            queue=False,
            trigger_mode="always_last",
            **PRIVATE,
        )

    def _wire_files(self) -> None:
        """Files of the run, runs of this visit, and what the method remembers."""
        self.visit.show_run(
            self._show_run, self.session, self.outputs, concurrency_limit=None, **PRIVATE
        )
        memory, inputs = self.inputs.learned, [self.session, self.pair, self.inputs.ask]
        self.saving.save_run(self._save, inputs, self.saving, queue=False, **PRIVATE)
        linked = [self.inputs.fault, *self.outputs]
        self.inputs.link.open_link(self._open_link, self.session, linked, queue=False, **PRIVATE)
        memory.save_memory(self._save_memory, inputs, memory, queue=False, **PRIVATE)
        memory.load_memory(
            self._load_memory, inputs, [memory, self.inputs.settings], queue=False, **PRIVATE
        )

    def attach_loading(self, blocks: gr.Blocks) -> None:
        """Say when the models are ready; take over the inputs of a link."""
        told = [self.models, self.inputs.cards]
        blocks.load(self._wait, outputs=told, concurrency_limit=None, **PRIVATE)
        self.pair.change(self._about_models, self.pair, told, queue=False, **PRIVATE)
        self.inputs.attach(blocks, self.view, list(self.charts.values()))

    async def _wait(self) -> AsyncIterator[list[Any]]:
        yield self._about_models()
        await self.runner.models.until_ready()
        yield self._about_models()

    def _about_models(self, pair: str = "") -> list[Any]:
        """Return the state of the models, and what methods lack with them."""
        models = self.runner.models
        return [models.state(pair), {"lacking": models.lacking(pair)}]

    def show(
        self,
        session: Session,
        trace: Trace,
        baseline: Trace | None,
        recorded: str = "",
        *,
        speedup: Speedup | None = None,
        badge: str = "",
        key: str = "",
    ) -> list[Any]:
        """Return the values of `outputs` that show a finished run with its inputs; raises
        InvalidInput while a run of this visitor is being written.

        recorded  the name of a recorded run, for a link to it
        badge     of a run that is not recorded
        key       of its card
        """
        speedup = speedup or gallery.speedup(recorded)
        session.open(trace, baseline, speedup, recorded)
        run, seq = uuid.uuid4().hex, time.time_ns()
        summary = Summary(trace, baseline, rounds=speedup)
        view = views.run_view(summary, run=run, seq=seq, badge_text=badge or views.badge(trace))
        inputs = permalink.of(trace)
        written = [gr.skip() for _ in self.inputs.components]
        if inputs:
            written = self.inputs.write(inputs)
            view |= {"asked": inputs.asked}
        return [
            view | {"rests": True},
            {"has": has_charts(trace)},
            visit.card(VisitRun(trace, baseline, speedup, key)),
            *_chart_values(seq, run, more_charts(summary)),
            *written,
        ]

    @property
    def outputs(self) -> list[Any]:
        shown = [self.view, self.details, self.visit, *self.charts.values()]
        return [*shown, *self.inputs.components]

    def _show_run(self, event: gr.EventData, session: Session) -> list[Any]:
        """Show a run of this visit, which the browser kept."""
        with errors_on_page():
            try:
                run = visit.read(field(event, "run", dict))
                more: dict[str, Any] = {"badge": views.LIVE, "key": run.key}
                return self.show(session, run.trace, run.baseline, speedup=run.speedup, **more)
            except OuroborosError as error:
                told = refused(error)
                return [told if view is self.visit else gr.skip() for view in self.outputs]

    def _generate(
        self, request: gr.Request, event: gr.EventData, session: Session, pair: str, gathered: Any
    ) -> Iterator[Any]:
        """Run the task of the inputs; or repeat the last run, if the view asked for that."""
        try:
            with errors_on_page(toast=False):
                order = self._order(event, session, pair, gathered)
                session.place(order)
                learning = order.warm and learns(order.task.method)
                memory = partial(session.memory, order.task) if learning else None
                job = RunJob(order.task, compare=True, find_memory=memory)
                updates = self.runner.submit(job, pair=order.pair, visitor=visitor_id(request))
                yield from timing.stream(updates, session, order)
        except gr.Error as error:
            session.fail(str(error.message))
            raise

    def _order(self, event: gr.EventData, session: Session, pair: str, gathered: Any) -> Order:
        act, last = sent(event, "act"), session.last_order
        if act is None or last is None:
            task, warm = self.inputs.read(gathered)
            return Order(task, pair, warm)
        return Order(repeated(last.task, act), last.pair, last.warm)

    @staticmethod
    def _follow(session: Session, event: gr.EventData) -> Any:
        """Set the inputs to those of the last run as a notice repeats it."""
        if session.last_order is None:
            return gr.skip()
        task = repeated(session.last_order.task, sent(event, "act"))
        run = {"chat": task.chat}
        return merged(methods.get(task.method), task.hyperparameters.model_dump(), run)

    @staticmethod
    def _rest(drawn: dict[str, Any] | None, session: Session) -> list[Any]:
        """Return the run's charts that are drawn at its end; nothing in another run."""
        if session.begun is not None:
            return [gr.skip() for _ in range(1 + len(MORE_CHARTS))]
        charts = [(drawn or {}).get(chart.id, gr.skip()) for chart in MORE_CHARTS]
        has = {"has": has_charts(session.shown[0])} if session.shown else gr.skip()
        return [has, *charts]

    def _save(
        self, event: gr.EventData, session: Session, pair: str, gathered: Any
    ) -> dict[str, Any]:
        """Return a file of the run that is shown, or a link: to this run if it was recorded and the
        inputs ask for it, else to the inputs as they are."""
        run = session.shown or self.first
        name = session.recorded if session.shown else RECORDED
        try:
            kind = field(event, "kind", str)
            if kind != "link":
                shown = saving.file(kind, *run, session.difference)
                return {"seq": time.time_ns(), **shown}
            task, _ = self.inputs.read(gathered)
            if name and self._repeats(session, task):
                said = f"It opens this run, recorded with {run[0].target}."
                shown = {"link": f"#run={name}", "said": said}
            else:
                loaded = self.runner.models.if_loaded(pair)
                shown = saving.link(task, loaded.target.name if loaded else "")
        except OuroborosError as error:
            shown = {"problem": str(error)}
        return {"seq": time.time_ns(), **shown}

    def _repeats(self, session: Session, task: Task) -> bool:
        """Return whether the inputs ask for the recorded run that is shown. One that plays leaves a
        visitor's settings as they are; another one has written its own."""
        trace, _ = session.shown or self.first
        written = permalink.of(trace)
        if session.shown is None or session.previewing:
            settings = methods.get(trace.method).Hyperparameters()
            written = permalink.of_task(Task(trace.prompt.text, trace.method, settings))
        return written in (None, permalink.of_task(task))

    def _open_link(self, event: gr.EventData, session: Session) -> list[Any]:
        """Show the recorded run of an address at a step, or say that there is none."""
        seq = time.time_ns()
        try:
            name, step = field(event, "name", str), field(event, "step", int)
            trace, baseline = gallery.trace(name), gallery.baseline(name)
            shown = self.show(session, trace, baseline, recorded=name)
        except OuroborosError as error:
            return [{"seq": seq, "words": str(error)}, *(gr.skip() for _ in self.outputs)]
        shown[0] |= {"step": min(max(step, 0), len(trace.steps))}
        return [{"seq": seq, "words": ""}, *shown]

    def _save_memory(self, session: Session, pair: str, gathered: Any) -> dict[str, Any]:
        try:
            shown = session.memory_file(*self._task_and_models(gathered, pair))
        except OuroborosError as error:
            shown = {"said": str(error)}
        return {"seq": time.time_ns(), **shown}

    def _load_memory(
        self, event: gr.EventData, session: Session, pair: str, gathered: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return what to say of the file, and the settings with warm start."""
        warm = gr.skip()
        try:
            name, text = field(event, "name", str)[:100], field(event, "text", str)
            inputs = self._task_and_models(gathered, pair)
            message = f"{name}: {session.open_memory(*inputs, text)}"
            warm = merged(methods.get(inputs[0].method), {}, {"warm": True})
        except OuroborosError as error:
            message = str(error)
        return {"seq": time.time_ns(), "said": message}, warm

    def _task_and_models(self, gathered: Any, name: str) -> tuple[Task, Pair]:
        task, _ = self.inputs.read(gathered)
        pair = self.runner.models.if_loaded(name)
        if pair is None:
            raise InvalidInput("The models are not loaded yet: wait for them, and try again.")
        return task, pair

    def _price(self, session: Session, event: gr.EventData) -> dict[str, Any]:
        """Return the run that is shown, on the machine that the visitor chose."""
        with errors_on_page():
            choices = field(event, "asked", dict)
            trace, _ = session.shown or self.first
            return {"seq": time.time_ns(), **what_if_view.view(trace, choices)}

    def _preview(self, session: Session, event: gr.EventData) -> list[Any]:
        """Show the recorded run of a prompt and a method, while the visitor has run nothing."""
        with errors_on_page():
            prompt, method = field(event, "prompt", str), field(event, "method", str)
            name = gallery.of_prompt(prompt, method)
            if name is None:
                raise InvalidInput(f"There is no recorded run of this prompt by {method[:40]}.")
        trace, view, charts = _recorded_run(name)
        if not session.preview(name, trace, gallery.baseline(name)):
            return [gr.skip() for _ in range(2 + len(self.charts))]
        run, seq = f"recorded {name}", time.time_ns()
        return [
            view | {"run": run, "seq": seq},
            {"has": has_charts(trace)},
            *_chart_values(seq, run, charts),
        ]

    def _left(self, session: Session) -> list[Any]:
        """Return why a run has failed, and the run as far as it is known, or the run before."""
        seq, order = time.time_ns(), session.leave()
        fault, session.fault = {"seq": seq, "words": session.fault}, ""
        if order is None or not order.run:
            return [fault, *(gr.skip() for _ in (self.view, *self.charts))]
        begun = order is session.last_order
        trace, baseline = session.shown or self.first
        if begun:
            status = _after_beginning(order.failed, trace)
        else:
            ending = "The run failed" if order.failed else "Stopped"
            status = f"{ending} before it began. This is the run before."
        run, badge = (order.run, views.LIVE) if begun else (f"{order.run} left", views.badge(trace))
        summary = Summary(trace, baseline, session.difference, session.speedup)
        view = views.run_view(summary, run=run, seq=seq, badge_text=badge, can_rerun=begun)
        view |= {"status": status} | ({"tiles": []} if not trace.steps else {})
        nothing = {chart.id: plots.empty(NOTHING_YET) for chart in MORE_CHARTS}
        charts = more_charts(summary) if trace.steps else nothing
        return [fault, view, *_chart_values(seq, run, charts)]


@cache
def _recorded_run(name: str) -> tuple[Trace, View, dict[str, Any]]:
    trace = gallery.trace(name)
    summary = Summary(trace, gallery.baseline(name), rounds=gallery.speedup(name))
    badge = views.badge(trace)
    view = views.run_view(summary, run=f"recorded {name}", seq=0, badge_text=badge)
    # A visitor runs the prompt and method of a recorded run anew with the page's defaults.
    view |= {"plays": name, "asked": Inputs(trace.prompt.text, trace.method).asked}
    view |= {"tour": tour(summary, views.piece_of(trace)).view}
    taken = labels.changes(trace.method, trace.hyperparameters)
    if taken:
        recorded = views.condition(RECORDED_SETTINGS, changed=False)
        view |= {"taken": taken, "conditions": [*view["conditions"], recorded]}
    return trace, view, more_charts(summary)


def repeated(task: Task, act: Any) -> Task:
    """Return a task as a notice repeats it."""
    if act == CHAT:
        return replace(task, chat=True)
    if act == FIXED:
        kind = type(task.hyperparameters)
        automatic = {name for name, value in task.hyperparameters if value == AUTO}
        fixed = {name: value for name, value in kind.fixed().items() if name in automatic}
        return replace(task, hyperparameters=task.hyperparameters.model_copy(update=fixed))
    return task


def _chart_values(seq: int, run: str, drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"seq": seq, "run": run, "figure": drawn[chart.id]} for chart in MORE_CHARTS]


def has_charts(trace: Trace) -> list[str]:
    """The ids of the charts that say something of a run, and of the run on another machine."""
    return [*figures.applying(trace), WHAT_IF]


def _after_beginning(failed: bool, trace: Trace) -> str:
    ending = "The run failed" if failed else "Stopped"
    if not trace.steps:
        return f"{ending} before the first token."
    rest = "What was written stays." if failed else "There is no plain run to compare with."
    return f"{ending} after {views.status_of(Summary(trace))}. {rest}"
