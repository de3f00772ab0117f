"""Sweep: one or two hyperparameters varied, measured cell by cell, stopped and resumed; progress
and results come first. A cell opens in Watch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.messages import counted, say
from visualize.gallery.tab import WATCH
from visualize.kit import labels as spoken
from visualize.kit.events import PRIVATE, pressable_from, pressable_until_the_end
from visualize.kit.plain_views import SaveView, SweepView
from visualize.kit.plot_view import PlotView
from visualize.results import data as results
from visualize.results import figures as result_figures
from visualize.results.data import Over
from visualize.results.tab import benchmark
from visualize.run import figures
from visualize.server.errors import errors_on_page, field, sent
from visualize.server.limits import who, whole
from visualize.server.runner import Runner
from visualize.server.session import Session, Swept
from visualize.server.updates import SweepProgress, SweepStarted, SweepUpdate, Waiting
from visualize.sweep import view as sweeping
from visualize.watch.examples import EXAMPLES
from visualize.watch.tab import WatchPanel
from visualize.what_if import view as elsewhere

if TYPE_CHECKING:
    from gradio.layouts import Tabs

    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sweeps.grid import Grid
    from ouroboros_core.sweeps.sweep import Sweep

NONE = ""
HERE = "this machine, measured"
MOST_PROMPTS, MOST_REPEATS, MOST = 100, 5, 256
"""Prompts of a sweep, runs of each, and tokens of a run."""
NOTHING_YET = "Nothing is measured yet."
RECORDED = "Recorded in the benchmark: speculative decoding by draft length"
BEFORE = (
    "Vary one or two settings: every combination runs on every prompt, in turn with plain "
    "decoding. Results appear here cell by cell."
)
UNREADY = "The models are loading; then there is an estimate of the time."
DEFAULT = ("speculative", "gamma", "1,2,4,8")
PROMPTS = "\n".join(
    e.prompt for e in EXAMPLES if e.chat and "\n" not in e.prompt and len(e.prompt) < 110
)


def _recorded() -> None:
    """A sweep that was measured beforehand, until a visitor begins one."""
    found = benchmark()
    if found is None:
        return
    figure = result_figures.by_gamma(found.bars(Over.PLAIN))
    value = {"seq": 0, "figure": figure}
    PlotView(value, label=RECORDED, height=400, elem_id="chart-recorded")
    about = (
        f"{found.questions} prompts, with 95% intervals. auto: the program chooses the length in "
        f"every step. {results.measured_on(found)}"
    )
    gr.Markdown(about, elem_id="recorded-note", elem_classes="ouro-note")


class SweepPanel:
    """Builds the tab inside an open gr.Blocks; runs are opened in the panel that shows them."""

    def __init__(self, runner: Runner, watch: WatchPanel, tabs: Tabs) -> None:
        self.runner, self.watch, self.pair = runner, watch, watch.pair
        self.most = min(MOST, runner.limits.new_tokens)
        with gr.Row(elem_classes=["ouro-main", "ouro-sweep-main"]):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                self._build_inputs()
            with gr.Column(min_width=0, elem_classes="ouro-options"):
                self._build_runs()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                before = {
                    "seq": 0,
                    "sweep": "",
                    "status": BEFORE,
                    "done": 0,
                    "total": 0,
                    "left": 0,
                    "finished": True,
                }
                self.view = SweepView(before, elem_id="sweep-view")
                _recorded()
                self.saving = SaveView(("json", "csv"), elem_id="sweep-save")
                empty = {"seq": 0, "figure": figures.empty(NOTHING_YET)}
                self.clock = gr.Dropdown(
                    [(HERE, ""), *((label, name) for name, label in elsewhere.clock_names())],
                    value="",
                    label="Speedup on",
                    elem_id="sweep-clock",
                )
                self.clock_note = gr.Markdown(
                    "", elem_id="sweep-clock-note", elem_classes="ouro-note"
                )
                self.chart = PlotView(
                    empty,
                    label="Speedup over plain decoding, and tokens per pass",
                    height=380,
                    elem_id="chart-sweep",
                )
                self.parallel = PlotView(
                    empty,
                    label="Every cell as a line through its settings and results",
                    height=320,
                    scrolls=True,
                    elem_id="chart-parallel",
                )
        self._wire(tabs)

    def _build_inputs(self) -> None:
        able = [(m.name, m.id) for m in methods.available().values() if m.proposes]
        method, axis, values = DEFAULT
        self.method = gr.Dropdown(able, value=method, label="Method", elem_id="sweep-method")
        self._build_axes(method, axis, values)
        self.estimate = gr.Markdown(UNREADY, elem_id="sweep-estimate", elem_classes="ouro-note")
        with gr.Row(elem_classes="ouro-buttons"):
            self.go = gr.Button("Sweep", variant="primary", elem_id="sweep", min_width=0)
            self.stop = gr.Button("Stop", interactive=False, elem_id="sweep-stop", min_width=0)
            self.resume = gr.Button(
                "Resume", interactive=False, elem_id="sweep-resume", min_width=0
            )

    def _build_runs(self) -> None:
        """What each cell runs."""
        self.prompts = gr.Textbox(
            PROMPTS,
            label="Prompts",
            info="One per line.",
            lines=3,
            max_lines=6,
            elem_id="sweep-prompts",
        )
        self.count = gr.Slider(
            8,
            self.most,
            value=48,
            step=8,
            label="Maximum new tokens of each run",
            info="How far each may go on.",
        )
        with gr.Accordion("More", open=False):
            self.settings = gr.Textbox(
                "",
                label="Fixed settings",
                placeholder="top_k_suffixes=3, or published; empty for the defaults",
                elem_id="sweep-settings",
            )
            self.repeats = gr.Slider(
                1,
                MOST_REPEATS,
                value=ROUNDS,
                step=1,
                label="Repeats",
                info="The median counts; from two on there is a spread.",
            )
            gr.Markdown(say("sweep.intro"), elem_classes="ouro-note")

    def _build_axes(self, method: str, axis: str, values: str) -> None:
        """What is varied, and over which values; of two, the second is free."""
        self.axes, self.values = [], []
        for number, (name, text) in enumerate(((axis, values), (NONE, "")), 1):
            with gr.Row(elem_classes="ouro-axis"):
                optional = number == 2
                choices = _names(method, optional=optional)
                self.axes.append(
                    gr.Dropdown(
                        choices,
                        value=name,
                        label="And vary" if optional else "Vary",
                        elem_id=f"axis-{number}",
                        min_width=0,
                        scale=2,
                    )
                )
                note = "2,4 or 2:8"
                self.values.append(
                    gr.Textbox(
                        text,
                        label="Its values",
                        placeholder=note,
                        elem_id=f"values-{number}",
                        min_width=0,
                        scale=1,
                    )
                )

    def _wire(self, tabs: Tabs) -> None:
        self.inputs = [
            self.pair,
            self.method,
            *self.axes,
            *self.values,
            self.settings,
            self.prompts,
            self.repeats,
            self.count,
        ]
        self.method.change(
            lambda method: [
                gr.update(choices=_names(method, optional=n == 1), value=_first(method, n))
                for n in range(2)
            ],
            self.method,
            self.axes,
            queue=False,
            **PRIVATE,
        )
        for one in self.inputs:
            one.change(self._estimate, self.inputs, self.estimate, queue=False, **PRIVATE)
        outputs = [self.view, self.chart, self.parallel]
        computing: dict[str, Any] = {"concurrency_limit": None, "trigger_mode": "once", **PRIVATE}
        session = self.watch.session
        starts = [self.go.click, self.resume.click]
        pressable_from(starts, self.stop)
        pressable_from(starts, self.resume, can=False)
        running = gr.on(
            starts,
            self._start,
            [session, *self.inputs],
            outputs,
            **computing,
        )
        self.stop.click(
            self._stop,
            [session, self.clock],
            [*outputs, self.clock_note],
            cancels=[running],
            queue=False,
            **PRIVATE,
        )
        pressable_until_the_end(running, self.stop)
        for end in (running.then, running.failure):
            end(self._resumable, session, self.resume, queue=False, **PRIVATE)
        on_clock = [session, self.clock], [self.chart, self.clock_note]
        self.clock.input(self._elsewhere, *on_clock, queue=False, **PRIVATE)
        self.go.click(lambda: "", None, self.clock_note, queue=False, **PRIVATE)
        running.success(self._elsewhere, *on_clock, queue=False, **PRIVATE)
        shown = [tabs, *self.watch.outputs]
        refusing: dict[str, Any] = {
            "concurrency_limit": None,
            **PRIVATE,
        }  # in the queue, so that a refusal is shown
        self.view.open_cell(self._open, session, shown, **refusing)
        self.chart.point_select(self._picked, session, shown, **refusing)
        self.saving.save_run(self._save, session, self.saving, **refusing)

    def _plan(self, *values: Any) -> tuple[Grid, list[Question], int, int]:
        """Grid, prompts, repeats and length that the inputs describe; raises InvalidInput."""
        from ouroboros_core.benchmark.prompts import Question
        from ouroboros_core.sweeps.grid import Axis, Grid, read_axis

        pair, method, first, second, texts, others, settings, prompts, repeats, count = values
        axes: list[Axis] = [
            read_axis(f"{name}={text}")
            for name, text in ((first, texts), (second, others))
            if name != NONE
        ]
        lines = [line.strip() for line in str(prompts).splitlines() if line.strip()]
        if not 1 <= len(lines) <= MOST_PROMPTS:
            raise InvalidInput(
                f"a sweep needs between 1 and {MOST_PROMPTS} prompts, one a line, got {len(lines)}"
            )
        questions = [Question(number, "own", (line,)) for number, line in enumerate(lines, 1)]
        grid = Grid.read(str(method), tuple(axes), str(settings))
        for draft in {cell.draft for cell in grid.cells} - {None}:
            self.runner.models.check_draft(pair, str(draft))
        counts = whole("repeats", repeats, MOST_REPEATS), whole("max_new_tokens", count, self.most)
        return grid, questions, *counts

    def attach(self, blocks: gr.Blocks) -> None:
        """Estimate once the models are there, and then whenever something changes."""
        ready = blocks.load(self.runner.models.until_ready, concurrency_limit=None, **PRIVATE)
        ready.then(self._estimate, self.inputs, self.estimate, queue=False, **PRIVATE)

    def _estimate(self, *values: Any) -> str:
        from ouroboros_core.sweeps.sweep import estimate, plain_runs

        try:
            here = self.runner.models.there(values[0])
            if here is None:
                return UNREADY
            grid, questions, repeats, count = self._plan(*values)
            seconds = estimate(here, grid, questions, repeats, count)
        except OuroborosError as error:
            return str(error)
        runs = len(grid.cells) * len(questions) * repeats
        told = f"{round(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"
        plain = plain_runs(grid) * len(questions) * repeats
        product = (
            f"{counted(len(grid.cells), 'setting')}, {counted(len(questions), 'prompt')}, "
            f"{counted(repeats, 'repeat')}"
        )
        return (
            f"{runs} runs of {count} tokens ({product}), and {plain} of plain decoding: about "
            f"{told} here at the speed of plain decoding."
        )

    def _start(
        self, request: gr.Request, event: gr.EventData, session: Session, *values: Any
    ) -> Iterator[Any]:
        """Both buttons are one event: of two, Stop would not end the one that runs."""
        with errors_on_page():
            # by its name: of a button that was changed, Gradio keeps a copy for each visitor
            resumed = event.target is not None and event.target.elem_id == self.resume.elem_id
            make = self._again(session) if resumed else self._new(*values)
            yield from self._run(
                session, self.runner.sweep(make, pair=values[0], visitor=who(request))
            )

    def _new(self, *values: Any) -> Callable[[Pair], Sweep]:
        from ouroboros_core.sweeps.sweep import Sweep, estimate

        plan, most = self._plan(*values), self.runner.limits.sweep_minutes

        def make(pair: Pair) -> Sweep:
            minutes = estimate(pair, *plan) / 60
            if minutes > most:
                raise InvalidInput(
                    f"this sweep would take about {minutes:.2g} minutes here; at most {most} are "
                    "allowed: take fewer values, prompts, repeats or tokens"
                )
            return Sweep(pair, *plan)

        return make

    @staticmethod
    def _resumable(session: Session) -> Any:
        """Resume can be pressed where a sweep has runs left."""
        swept = session.swept
        return gr.update(interactive=swept is not None and swept.sweep.done < swept.sweep.total)

    @staticmethod
    def _again(session: Session) -> Callable[[Pair], Sweep]:
        swept = session.swept
        if swept is None:
            raise InvalidInput("There is no sweep to go on with.")
        return lambda _: swept.sweep

    def _run(self, session: Session, updates: Iterator[SweepUpdate]) -> Iterator[Any]:
        """What is left of a sweep; the session keeps it, so that it can be stopped at any time.

        Charts come when nothing is left to be timed: a browser on the same machine that draws them
        takes time from the run that is measured meanwhile.
        """
        known: dict[str, Any] = {"done": 0, "total": 0, "left": 0}
        counted = -1
        turn = uuid.uuid4().hex  # a stopped one is not the one that goes on
        swept: Swept | None = None
        for update in updates:
            match update:
                case Waiting():
                    status = update.status
                case SweepStarted():
                    swept, status = session.sweep(update.sweep), "Warming up …"
                case SweepProgress():
                    what = update.status
                    status = f"Measuring: {what}" if what else "Warming up …"
                    if swept is not None and update.done is not None:
                        swept.add(update.done)
            if swept is not None and len(swept.sweep.points) != counted:
                counted = len(swept.sweep.points)  # else only the status is another
                known = sweeping.measured(swept)
            drawn = [gr.skip(), gr.skip()]
            if swept is not None and known.get("finished"):
                status, drawn = f"Done.{sweeping.left_out(swept)}", _drawn(swept)
            yield known | {"seq": time.time_ns(), "sweep": turn, "status": status}, *drawn

    @staticmethod
    def _stop(session: Session, clock: str) -> list[Any]:
        """That it is stopped, and what was measured, on the clock that is chosen; a sweep that is
        new does not know it."""
        stopped = {"seq": time.time_ns(), "stopped": True}
        if session.swept is None:
            return [stopped, *(gr.skip() for _ in range(3))]
        with errors_on_page():
            _set_clock(session.swept, clock)
        return [stopped, *_drawn(session.swept), sweeping.note(session.swept)]

    @staticmethod
    def _elsewhere(session: Session, clock: str) -> list[Any]:
        """The chart of all runs so far on another clock, and where its best cell is."""
        with errors_on_page():
            if session.swept is None:
                return [gr.skip(), "Nothing is swept yet." if clock else ""]
            _set_clock(session.swept, clock)
            return [sweeping.picture(session.swept), sweeping.note(session.swept)]

    def _picked(self, event: gr.EventData, session: Session) -> list[Any]:
        """A click on a chart; marks of theory belong to no cell."""
        cell = sent(event, "data")
        if not isinstance(cell, int):
            return [gr.skip() for _ in range(1 + len(self.watch.outputs))]
        with errors_on_page():
            return self._shown_cell(cell, session)

    def _open(self, event: gr.EventData, session: Session) -> list[Any]:
        with errors_on_page():
            return self._shown_cell(field(event, "cell", int), session)

    def _shown_cell(self, cell: int, session: Session) -> list[Any]:
        found = session.swept.traces.get(cell) if session.swept else None
        if found is None:
            raise InvalidInput("The run of this cell is no longer there: sweep again.")
        session.keep(found[0])
        return [gr.Tabs(selected=WATCH), *self.watch.show(session, *found)]

    @staticmethod
    def _save(event: gr.EventData, session: Session) -> dict[str, Any]:
        if session.swept is None or not session.swept.sweep.points:
            return {"seq": time.time_ns(), "problem": NOTHING_YET}
        return sweeping.file_of(session.swept, field(event, "kind", str))


def _set_clock(swept: Swept, clock: str) -> None:
    """Show a sweep on that clock from now on; raises InvalidInput for one that there is not."""
    if clock and clock not in elsewhere.CLOCKS:
        raise InvalidInput(f"there is no clock {str(clock)[:40]!r}")
    swept.clock = clock


def _drawn(swept: Swept) -> list[Any]:
    """The two charts of all runs so far, where there are some."""
    if not swept.sweep.points:
        return [gr.skip(), gr.skip()]
    return [sweeping.picture(swept), sweeping.parallel(swept)]


@errors_on_page()
def _names(method: str, *, optional: bool) -> list[tuple[str, str]]:
    """What may be varied."""
    from ouroboros_core.sampling import Sampling

    names = [*methods.get(method).Hyperparameters.settings(), *Sampling.settings(), "draft"]
    return [
        *([("nothing else", NONE)] if optional else []),
        *((spoken.label(name), name) for name in names),
    ]


def _first(method: str, axis: int) -> str:
    return (
        NONE if axis else next(iter(methods.get(method).Hyperparameters.settings()), "temperature")
    )
