"""Watch: a prompt, a method with its settings, and the text, coloured by the tokens' origins."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods, rules
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.trace.summary import Summary
from visualize.gallery import runs as gallery
from visualize.kit import plots
from visualize.kit.events import PRIVATE, at_the_end, errors_on_page, field, sent
from visualize.kit.inputs import RunInputs, chosen, learns
from visualize.kit.markup import MOTTO
from visualize.kit.plot_view import PlotView
from visualize.kit.setting_input import NOTHING_YET
from visualize.run import figures, permalink, saving
from visualize.run import view as views
from visualize.run.components import DetailsView, SaveView, TokenView
from visualize.run.figures import CHARTS, Chart, all_charts
from visualize.run.view import View
from visualize.server.errors import describe
from visualize.server.jobs import Update, Waiting
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner
from visualize.watch import endpoint, warm_start
from visualize.watch.job import Finished, RunJob, RunUpdate, Written
from visualize.watch.session import Order, Session
from visualize.what_if import view as what_if_view
from visualize.what_if.components import WhatIfView

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.trace.trace import Trace

WHAT_IF = "what_if"
"""Beside the charts: the run on another machine."""
RECORDED = gallery.first(methods.DEFAULT) or next(iter(gallery.runs()))
"""The recorded run on screen before any model is loaded."""
CHAT = "chat"
"""The act of the view that asks for the chat template, after an empty answer without it."""
ENDED = "() => { document.dispatchEvent(new CustomEvent('ouro:ended')); }"
"""Reports to the page's scripts that a run is over, whichever way."""


class WatchPanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        """pair: the component in which a visitor chooses the models, for all tabs."""
        self.runner, self.pair = runner, pair
        self.first = trace, baseline = gallery.trace(RECORDED), gallery.baseline(RECORDED)
        self.inputs = RunInputs(runner.limits.new_tokens, trace)
        summary = Summary(trace, baseline, rounds=gallery.speedup(RECORDED))
        drawn = all_charts(summary)
        shown = views.run_view(summary, run="recorded", seq=0, badge_text=views.badge(trace))
        shown |= {"plays": RECORDED}
        self.session = gr.State(Session())
        self.drawn = gr.State({})
        with gr.Row(elem_classes="ouro-main ouro-watch"):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                gr.Markdown(MOTTO, elem_classes="ouro-motto")
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
                named = [{"id": chart.id, "label": chart.label} for chart in CHARTS]
                named.append({"id": WHAT_IF, "label": "Another machine"})
                self.details = DetailsView(named, has_charts(trace), elem_id="details")
                with gr.Row(elem_classes="ouro-charts"):
                    self.charts = {chart.id: self._chart(chart, drawn) for chart in CHARTS}
                    self.what_if = WhatIfView(what_if_view.choices(), elem_id=f"chart-{WHAT_IF}")
                self.models = gr.Markdown(
                    self.runner.models.state(), elem_id="models", elem_classes="ouro-note"
                )
        self._wire()

    @staticmethod
    def _chart(chart: Chart, drawn: dict[str, Any]) -> PlotView:
        later = None if chart.grow else plots.empty("Measured when the run has ended.")
        return PlotView(
            {"seq": 0, "run": "recorded", "figure": drawn[chart.id]},
            label=chart.title,
            axis=chart.axis,
            later=later,
            elem_id=f"chart-{chart.id}",
        )

    def _wire(self) -> None:
        self.inputs.wire()
        # `ask` holds the values of all inputs, gathered in the browser.
        inputs = [self.session, self.pair, self.inputs.ask]
        growing = [self.charts[chart.id] for chart in CHARTS if chart.grow]
        rest = [self.charts[chart.id] for chart in CHARTS if not chart.grow]
        # While it runs only what changes is an output: each costs the browser time at every update.
        changing = [self.view, *growing, self.drawn]
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
            running.then(self.runner.models.state, self.pair, self.models, queue=False, **PRIVATE)
            ended = [self.drawn, self.session], [self.details, *rest]
            running.success(self._rest, *ended, **PRIVATE)
            running.failure(
                self._left, self.session, [self.view, *self.charts.values()], queue=False, **PRIVATE
            )
            at_the_end(running, ENDED)
            timing = running.success(
                self._time,
                self.session,
                changing,
                concurrency_limit=None,
                trigger_mode="multiple",
                **PRIVATE,
            )
            timing.success(self._rest, *ended, **PRIVATE)
            runs.append(running)
        # Only on a visitor's own choice: a link or a reload brings the run that it shows.
        previewed = [self.view, self.details, *self.charts.values()]
        here = [self.session, self.inputs.prompt]
        shown = self.inputs.method.input(
            self._preview, [*here, self.inputs.method], previewed, queue=False, **PRIVATE
        )
        self.inputs.follow(self.view, shown)
        shown = self.inputs.cards.choose_method(
            self._preview_card, here, previewed, queue=False, **PRIVATE
        )
        self.inputs.follow(self.view, shown)
        self.view.run_again(self._chatting, None, self.inputs.chat, queue=False, **PRIVATE)
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
        """Files of the run, and of what its method remembers."""
        self.saving.save_run(
            self._save, [self.session, self.inputs.ask], self.saving, queue=False, **PRIVATE
        )
        memory, inputs = self.inputs.learned, [self.session, self.pair, self.inputs.ask]
        memory.save_memory(self._save_memory, inputs, memory, queue=False, **PRIVATE)
        memory.load_memory(
            self._load_memory, inputs, [memory, self.inputs.warm], queue=False, **PRIVATE
        )

    def attach_loading(self, blocks: gr.Blocks) -> None:
        """Say when the models are ready; take over the inputs of a link."""
        blocks.load(self._wait, outputs=self.models, concurrency_limit=None, **PRIVATE)
        self.pair.change(self.runner.models.state, self.pair, self.models, queue=False, **PRIVATE)
        self.inputs.attach(blocks, self.view, list(self.charts.values()))

    async def _wait(self) -> AsyncIterator[str]:
        models = self.runner.models
        yield models.state()
        await models.until_ready()
        yield models.state()

    def show(self, session: Session, trace: Trace, baseline: Trace | None) -> list[Any]:
        """Return the values of `outputs` that show a finished run with its inputs."""
        session.timing = None
        session.show(trace, baseline)
        run, seq = uuid.uuid4().hex, time.time_ns()
        summary = Summary(trace, baseline)
        view = views.run_view(summary, run=run, seq=seq, badge_text=views.badge(trace))
        inputs = permalink.of(trace)
        written = (
            self.inputs.write(inputs) if inputs else [gr.skip() for _ in self.inputs.components]
        )
        return [
            view,
            {"has": has_charts(trace)},
            *_chart_values(seq, run, all_charts(summary)),
            *written,
        ]

    @property
    def outputs(self) -> list[Any]:
        """Return the components that `show` changes."""
        return [self.view, self.details, *self.charts.values(), *self.inputs.components]

    def _generate(
        self,
        request: gr.Request,
        event: gr.EventData,
        session: Session,
        pair: str,
        gathered: Any,
    ) -> Iterator[Any]:
        """Run the task of the inputs; or repeat the last run, if the view asked for that."""
        with errors_on_page():
            act, last = sent(event, "act"), session.last_order
            if act is None or last is None:
                task, warm = self.inputs.read(gathered)
                order = Order(task, pair, warm)
            else:
                task = replace(last.task, chat=last.task.chat or act == CHAT)
                order = Order(task, last.pair, last.warm)
            session.place(order)
            memory = partial(session.memory, task) if order.warm and learns(task.method) else None
            job = RunJob(task, compare=True, find_memory=memory)
            updates = self.runner.submit(job, pair=order.pair, visitor=visitor_id(request))
            try:
                yield from self._stream(updates, session, order)
            except Exception:
                order.failed = True
                raise

    @staticmethod
    def _chatting(event: gr.EventData) -> Any:
        """Tick the box when a run is repeated with the chat template."""
        return True if sent(event, "act") == CHAT else gr.skip()

    @staticmethod
    def _stream(
        updates: Generator[Update, None, None], session: Session, order: Order
    ) -> Iterator[Any]:
        """Yield the outputs after each update.

        An output that did not change is yielded again: the difference that Gradio sends is empty.
        """
        view: View = {}
        drawn: dict[str, Any] = {}
        for update in updates:
            session.take(update, order)
            if isinstance(update, Waiting):
                view = {"run": f"{update.name} waits", "waiting": update.status}
            elif isinstance(update, RunUpdate):
                view, drawn = update.view, drawn | _chart_views(update)
            if isinstance(update, Written):
                session.timing = updates  # `_time` goes on with them
            yield _changing(view, drawn)
            if isinstance(update, Written):
                return

    @staticmethod
    def _time(session: Session) -> Iterator[Any]:
        """Go on with the timing of the run that is shown, until a visitor asks for another one."""
        updates, order = session.timing, session.order
        if updates is None or order is None or session.trace is None:
            return
        complete = views.status_of(Summary(session.trace))
        view: View = {"run": order.run, "done": True}
        drawn: dict[str, Any] = {}
        waits = f"{complete}. The timing waits for the runs of others …"
        status = f"{complete}. Timing it …"
        try:
            for update in updates:
                if session.timing is not updates:
                    return
                session.take(update, order)
                if isinstance(update, RunUpdate):
                    view, drawn = update.view, drawn | _chart_views(update)
                    status = view["status"]
                now = waits if isinstance(update, Waiting) else status
                timing = {"timing": not isinstance(update, Finished)}
                yield _changing(view | timing | {"status": now}, drawn)
                view = view | {"again": None}  # once is enough
        except Exception as error:
            reason = str(error) if isinstance(error, OuroborosError) else describe(error)
            status = f"{complete}. The timing failed: {reason}"
            yield _changing(view | {"timing": False, "status": status}, drawn)
        finally:  # also when the visitor leaves; the session is kept
            updates.close()

    @staticmethod
    def _rest(drawn: dict[str, Any] | None, session: Session) -> list[Any]:
        """Return the ids of the run's charts, and the charts that are drawn at its end; nothing if
        another run has begun."""
        if session.begun is not None:
            return [gr.skip() for chart in CHARTS if not chart.grow] + [gr.skip()]
        charts = [(drawn or {}).get(chart.id, gr.skip()) for chart in CHARTS if not chart.grow]
        has = {"has": has_charts(session.shown[0])} if session.shown else gr.skip()
        return [has, *charts]

    def _save(self, event: gr.EventData, session: Session, gathered: Any) -> dict[str, Any]:
        """Return a file of the run that is shown, or a link to the inputs as they are."""
        try:
            kind = field(event, "kind", str)
            if kind == "link":
                shown = saving.link(self.inputs.read(gathered)[0])
            else:
                run = session.shown or self.first
                shown = saving.file(kind, *run, session.difference)
        except OuroborosError as error:
            shown = {"problem": str(error)}
        return {"seq": time.time_ns(), **shown}

    def _save_memory(self, session: Session, pair: str, gathered: Any) -> dict[str, Any]:
        try:
            shown = warm_start.saved(session, *self._task_and_models(gathered, pair))
        except OuroborosError as error:
            shown = {"said": str(error)}
        return {"seq": time.time_ns(), **shown}

    def _load_memory(
        self, event: gr.EventData, session: Session, pair: str, gathered: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return what to say of the file, and the switch of warm start."""
        warm = gr.skip()
        try:
            name, text = field(event, "name", str)[:100], field(event, "text", str)
            inputs = self._task_and_models(gathered, pair)
            message, warm = f"{name}: {warm_start.loaded(session, *inputs, text)}", True
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

    def _preview_card(self, session: Session, prompt: str, event: gr.EventData) -> list[Any]:
        """Show a recorded run of the method of a card."""
        return self._preview(session, prompt, chosen(event))

    def _preview(self, session: Session, prompt: str, method: str) -> list[Any]:
        """Show a recorded run of the chosen method while the visitor has run nothing.

        A run of the prompt in the box, if there is one; otherwise the prompt follows the run.
        """
        name = gallery.first(method, prompt)
        skipped = [gr.skip() for _ in range(2 + len(self.charts))]
        if name is None:
            return skipped
        before, _ = session.shown or self.first
        trace, baseline = gallery.trace(name), gallery.baseline(name)
        if not session.preview(trace, baseline):
            return skipped
        run, seq = f"recorded {name}", time.time_ns()
        summary = Summary(trace, baseline, rounds=gallery.speedup(name))
        badge = views.badge(trace)
        view = views.run_view(summary, run=run, seq=seq, badge_text=badge)
        prompt_after = {"prompt": trace.prompt.text, "chat": trace.prompt.chat}
        follows = {"before": before.prompt.text, **prompt_after}
        return [
            view | {"plays": name, "follows": follows},
            {"has": has_charts(trace)},
            *_chart_values(seq, run, all_charts(summary)),
        ]

    def _left(self, session: Session) -> list[Any]:
        """Show a run that was stopped or has failed, as far as it is known, or the run before."""
        order = session.leave()
        if order is None or not order.run:
            return [gr.skip() for _ in (self.view, *self.charts)]
        seq, begun = time.time_ns(), order is session.last_order
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
        nothing = {chart.id: plots.empty(NOTHING_YET) for chart in CHARTS}
        charts = all_charts(summary) if trace.steps else nothing
        return [view, *_chart_values(seq, run, charts)]


def _chart_values(seq: int, run: str, drawn: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of the charts' components."""
    return [{"seq": seq, "run": run, "figure": drawn[chart.id]} for chart in CHARTS]


def has_charts(trace: Trace) -> list[str]:
    """The ids of the charts that say something of a run, and of the run on another machine."""
    return [*figures.applying(trace), WHAT_IF]


def _after_beginning(failed: bool, trace: Trace) -> str:
    """Return the status of a run that ended early."""
    ending = "The run failed" if failed else "Stopped"
    if not trace.steps:
        return f"{ending} before the first token."
    rest = "What was written stays." if failed else "There is no plain run to compare with."
    return f"{ending} after {views.status_of(Summary(trace))}. {rest}"


def _chart_views(update: RunUpdate) -> dict[str, Any]:
    """Return the values of the charts that an update changes, by their ids."""
    seq, run = time.time_ns(), update.view["run"]
    return {
        name: {"seq": seq, "run": run, "figure": figure} for name, figure in update.charts.items()
    }


def _changing(view: View, drawn: dict[str, Any]) -> tuple[Any, ...]:
    """Return the outputs that change while a run is under way, in the order of `_wire`."""
    growing = (drawn.get(chart.id, gr.skip()) for chart in CHARTS if chart.grow)
    return view, *growing, drawn or gr.skip()


def add_endpoint(runner: Runner) -> None:
    """Add the endpoint /generate, for programs."""

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
        acceptance: str = rules.DEFAULT,
        prediction: str = "",
        record: bool = False,
        pair: str = "",
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Continue a prompt. Values arrive while it runs; the last one contains the trace.

        Each value is {text, done}. The last adds tokens_per_second; speedup over plain decoding,
        measured: the median of the rounds in speedups (null and empty without compare);
        identical (to plain decoding; null under a rule that does not repeat its text);
        difference (where, and whether rounding explains it); and trace, one JSON object with
        `steps`.
        """
        values = {
            "prompt": prompt,
            "method": method,
            "knobs": knobs,
            "chat": chat,
            "max_new_tokens": max_new_tokens,
            "prediction": prediction,
            "record": record,
            "compare": compare,
            "pair": pair,
        }
        sampling = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "acceptance": acceptance,
        }
        with errors_on_page():
            yield from endpoint.answers(runner, values, sampling, visitor_id(request))

    # One computes at a time all the same: see `Runner.submit`.
    gr.api(generate, api_name="generate", concurrency_limit=None)
