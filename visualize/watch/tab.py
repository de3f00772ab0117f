"""Watch: a prompt, a method with its settings, and the text as it comes, each token in
the colour of its origin."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.trace.summary import Summary
from ouroboros_core.words import counted
from visualize.gallery import runs as gallery
from visualize.kit.events import PRIVATE, at_the_end
from visualize.kit.inputs import RunInputs, chosen, learns
from visualize.kit.markup import MOTTO
from visualize.kit.plain_views import DetailsView, ElsewhereView, TokenView
from visualize.kit.plot_view import PlotView
from visualize.kit.setting_input import NOTHING_YET
from visualize.run import figures, permalink
from visualize.run import view as views
from visualize.run.figures import CHARTS, Chart, all_charts
from visualize.run.saving import Saving
from visualize.run.view import View
from visualize.server.errors import errors_on_page, field, sent
from visualize.server.limits import who
from visualize.server.runner import Runner
from visualize.server.session import Asked, Session
from visualize.server.updates import (
    Compared,
    Comparing,
    Finished,
    Progress,
    RunUpdate,
    Started,
    Waiting,
    Written,
)
from visualize.watch.warm_start import Keeping
from visualize.what_if import view as elsewhere

if TYPE_CHECKING:
    from ouroboros_core.trace.summary import Speedup
    from ouroboros_core.trace.trace import Trace

ELSEWHERE = "elsewhere"
"""Beside the charts: the run on another machine."""
RECORDED = gallery.first(methods.DEFAULT) or next(iter(gallery.runs()))
"""On screen before any model is loaded."""
CHAT = "chat"
"""What the view asks for where an answer was empty without the chat template."""
ENDED = "() => { document.dispatchEvent(new CustomEvent('ouro:ended')); }"
"""What the page's own scripts are told when a run is over, whichever way."""


class WatchPanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        """pair: the component in which the models are chosen, for all tabs."""
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
                self.saving = Saving(self.session, self.first)
                self.keeping = Keeping(self.session, runner.models)
                named = [{"id": chart.id, "label": chart.label} for chart in CHARTS]
                named.append({"id": ELSEWHERE, "label": "Another machine"})
                self.details = DetailsView(named, has_charts(trace), elem_id="details")
                with gr.Row(elem_classes="ouro-charts"):
                    self.charts = {chart.id: self._chart(chart, drawn) for chart in CHARTS}
                    self.elsewhere = ElsewhereView(
                        elsewhere.choices(), elem_id=f"chart-{ELSEWHERE}"
                    )
                self.models = gr.Markdown(
                    self.runner.models.state(), elem_id="models", elem_classes="ouro-note"
                )
        self._wire()

    @staticmethod
    def _chart(chart: Chart, drawn: dict[str, Any]) -> PlotView:
        later = None if chart.grow else figures.empty("Measured when the run has ended.")
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
            running.success(
                self._rest, [self.drawn, self.session], [self.details, *rest], **PRIVATE
            )
            running.failure(
                self._left, self.session, [self.view, *self.charts.values()], queue=False, **PRIVATE
            )
            at_the_end(running, ENDED)
            runs.append(running)
        # A visitor's own choice alone: a link and a reload choose, too, and bring what they show.
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
        self.saving.wire(self.inputs)
        self.keeping.wire(self.inputs, self.pair)
        self.elsewhere.price_run(
            self._price,
            self.session,
            self.elsewhere,
            queue=False,
            trigger_mode="always_last",
            **PRIVATE,
        )

    def attach_loading(self, blocks: gr.Blocks) -> None:
        """Say when the models are there; take over the inputs of a link."""
        blocks.load(self._wait, outputs=self.models, concurrency_limit=None, **PRIVATE)
        self.pair.change(self.runner.models.state, self.pair, self.models, queue=False, **PRIVATE)
        self.inputs.attach(blocks, self.view, list(self.charts.values()))

    async def _wait(self) -> AsyncIterator[str]:
        models = self.runner.models
        yield models.state()
        await models.until_ready()
        yield models.state()

    def show(self, session: Session, trace: Trace, baseline: Trace | None) -> list[Any]:
        """The values of `outputs` that show a finished run, with its inputs; the
        session remembers it."""
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
        """What `show` gives values for."""
        return [self.view, self.details, *self.charts.values(), *self.inputs.components]

    def _generate(
        self,
        request: gr.Request,
        event: gr.EventData,
        session: Session,
        pair: str,
        gathered: Any,
    ) -> Iterator[Any]:
        """What the inputs describe; or once more what was run last, measured again, where the view
        asked for that."""
        with errors_on_page():
            act, last = sent(event, "act"), session.ran
            if act is None or last is None:
                task, warm = self.inputs.read(gathered)
                asked = Asked(task, pair, warm)
            else:
                asked = Asked(
                    replace(last.task, chat=last.task.chat or act == CHAT), last.pair, last.warm
                )
            session.ask(asked)
            task = asked.task
            memory = partial(session.memory, task) if asked.warm and learns(task.method) else None
            # The runner admits it and lets it wait its turn; then `Compute.run` in
            # server/compute.py.
            updates = self.runner.run(
                task,
                compare=True,
                memory=memory,
                pair=asked.pair,
                visitor=who(request),
            )
            try:
                yield from self._stream(updates, session, asked)
            except Exception:
                asked.failed = True
                raise

    @staticmethod
    def _chatting(event: gr.EventData) -> Any:
        """The box follows where a run is made once more with the chat template."""
        return True if sent(event, "act") == CHAT else gr.skip()

    @staticmethod
    def _stream(updates: Iterator[RunUpdate], session: Session, asked: Asked) -> Iterator[Any]:
        """Outputs that did not change are yielded again as they were: the difference that Gradio
        sends is then empty."""
        view: View = {}
        drawn: dict[str, Any] = {chart.id: {} for chart in CHARTS}
        for seq, update in enumerate(updates, 1):
            session.take(update, asked)
            match update:
                case Waiting(name=name, status=status):
                    view = _waiting_view(name, status)
                case Compared():
                    view = update.view
                case Started() | Progress() | Written() | Finished():
                    view = update.view
                    drawn = drawn | {
                        name: {"seq": seq, "run": view["run"], "figure": figure}
                        for name, figure in update.charts.items()
                    }
                case Comparing():
                    pass
            growing = (drawn[chart.id] for chart in CHARTS if chart.grow)
            yield view, *growing, drawn  # in the order of `changing`, see `_wire`

    @staticmethod
    def _rest(drawn: dict[str, Any] | None, session: Session) -> list[Any]:
        """Which charts the run has, and those that are drawn at its end."""
        charts = [(drawn or {}).get(chart.id, gr.skip()) for chart in CHARTS if not chart.grow]
        has = {"has": has_charts(session.shown[0])} if session.shown else gr.skip()
        return [has, *charts]

    def _price(self, session: Session, event: gr.EventData) -> dict[str, Any]:
        """The run that is shown, on the machine that a visitor chose."""
        with errors_on_page():
            asked = field(event, "asked", dict)
            trace, _ = session.shown or self.first
            return {"seq": time.time_ns(), **elsewhere.view(trace, asked)}

    def _preview_card(self, session: Session, prompt: str, event: gr.EventData) -> list[Any]:
        """The same, of the method of a card."""
        return self._preview(session, prompt, chosen(event))

    def _preview(self, session: Session, prompt: str, method: str) -> list[Any]:
        """As long as a visitor has run nothing: a recorded run of the method that is chosen, and
        its prompt in the box; one of the prompt in the box where there is one."""
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
        view = views.run_view(summary, run=run, seq=seq, badge_text=views.badge(trace))
        asked = trace.prompt
        follows = {"before": before.prompt.text, "prompt": asked.text, "chat": asked.chat}
        return [
            view | {"plays": name, "follows": follows},
            {"has": has_charts(trace)},
            *_chart_values(seq, run, all_charts(summary)),
        ]

    def _left(self, session: Session) -> list[Any]:
        """What is shown after a run that was stopped or has failed: all that is known of it, or
        else what was there before."""
        asked = session.leave()
        if asked is None or not asked.run:
            return [gr.skip() for _ in (self.view, *self.charts)]
        seq, begun = time.time_ns(), asked is session.ran
        trace, baseline = session.shown or self.first
        whole = begun and session.trace is not None
        if whole:
            status = _after_comparing(asked.failed, trace, session.speedup)
        elif begun:
            status = _after_beginning(asked.failed, trace)
        else:
            how = "The run failed" if asked.failed else "Stopped"
            status = f"{how} before it began. This is the run before."
        run, badge = (asked.run, views.LIVE) if begun else (f"{asked.run} left", views.badge(trace))
        summary = Summary(trace, baseline, session.difference, session.speedup)
        view = views.run_view(summary, run=run, seq=seq, badge_text=badge, can_rerun=begun)
        view |= {"status": status} | ({"tiles": []} if not trace.steps else {})
        nothing = {chart.id: figures.empty(NOTHING_YET) for chart in CHARTS}
        charts = all_charts(summary) if trace.steps else nothing
        return [view, *_chart_values(seq, run, charts)]


def _chart_values(seq: int, run: str, drawn: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of the charts' components."""
    return [{"seq": seq, "run": run, "figure": drawn[chart.id]} for chart in CHARTS]


def has_charts(trace: Trace) -> list[str]:
    """The ids of the charts that say something of a run, and of the run on another machine."""
    return [*figures.applying(trace), ELSEWHERE]


def _after_comparing(failed: bool, trace: Trace, speedup: Speedup | None) -> str:
    """What is said of a run that is complete, without all that it is compared with."""
    how = "failed" if failed else "was stopped"
    status = views.status_of(Summary(trace))
    if speedup is not None:
        done = counted(len(speedup.each), "round")
        return f"The run is complete: {status}. Measuring again {how} after {done}."
    return f"The run is complete: {status}. Timing it {how}, so there is nothing to compare with."


def _after_beginning(failed: bool, trace: Trace) -> str:
    """What is said of a run that ended before its time."""
    how = "The run failed" if failed else "Stopped"
    if not trace.steps:
        return f"{how} before the first token."
    more = "What was written stays." if failed else "There is no plain run to compare with."
    return f"{how} after {views.status_of(Summary(trace))}. {more}"


def _waiting_view(name: str, status: str) -> View:
    """What the token view shows before a run has begun."""
    return {
        "seq": 0,
        "run": f"{name} waits",
        "from": 0,
        "steps": [],
        "badge": "waiting",
        "tiles": [],
        "status": status,
    }
