"""Sweep: one or two settings varied, measured cell by cell, stopped and resumed.

A cell opens in Watch.
"""

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
from visualize.kit import labels, plots
from visualize.kit.events import (
    PRIVATE,
    errors_on_page,
    field,
    pressable_from,
    pressable_until_the_end,
    sent,
)
from visualize.kit.plot_view import PlotView
from visualize.results import data as results
from visualize.results import figures as result_figures
from visualize.results.data import Over
from visualize.results.tab import benchmark
from visualize.run.components import SaveView
from visualize.server.jobs import Update, Waiting
from visualize.server.limits import visitor_id, whole_number
from visualize.server.runner import Runner
from visualize.sweep import view as sweeping
from visualize.sweep.components import SweepView
from visualize.sweep.job import (
    SweepJob,
    SweepProgress,
    SweepResults,
    SweepStarted,
    VisitorSweep,
)
from visualize.watch.examples import EXAMPLES
from visualize.watch.session import Session
from visualize.watch.tab import WatchPanel
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from gradio.layouts import Tabs

    from ouroboros_core.benchmark.prompts import Question
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.sweeps.grid import Grid
    from ouroboros_core.sweeps.sweep import Sweep

NONE = ""
HERE = "this machine, measured"
MOST_PROMPTS, MOST_REPEATS, MOST_TOKENS = 100, 5, 256
"""Most prompts of a sweep, runs of each, and tokens of a run."""
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
    """Show a recorded sweep, until a visitor begins one."""
    recorded = benchmark()
    if recorded is None:
        return
    figure = result_figures.by_gamma(recorded.bars(Over.PLAIN))
    value = {"seq": 0, "figure": figure}
    PlotView(value, label=RECORDED, height=400, elem_id="chart-recorded")
    about = (
        f"{recorded.questions} prompts, with 95% intervals. auto: the program chooses the length "
        f"in every step. {results.measured_on(recorded)}"
    )
    gr.Markdown(about, elem_id="recorded-note", elem_classes="ouro-note")


class SweepPanel:
    """Builds the tab inside an open gr.Blocks; runs are opened in the panel that shows them."""

    def __init__(self, runner: Runner, watch: WatchPanel, tabs: Tabs) -> None:
        self.runner, self.watch, self.pair = runner, watch, watch.pair
        self.visitor = gr.State(VisitorSweep())
        self.most_tokens = min(MOST_TOKENS, runner.limits.new_tokens)
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
                empty = {"seq": 0, "figure": plots.empty(NOTHING_YET)}
                self.clock = gr.Dropdown(
                    [(HERE, ""), *((label, name) for name, label in what_if_view.clock_names())],
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
        """Build the inputs for the runs of each cell."""
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
            self.most_tokens,
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
        """Build the inputs for one or two settings and their values."""
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
        for component in self.inputs:
            component.change(self._estimate, self.inputs, self.estimate, queue=False, **PRIVATE)
        outputs = [self.view, self.chart, self.parallel]
        computing: dict[str, Any] = {"concurrency_limit": None, "trigger_mode": "once", **PRIVATE}
        starts = [self.go.click, self.resume.click]
        pressable_from(starts, self.stop)
        pressable_from(starts, self.resume, can=False)
        running = gr.on(
            starts,
            self._start,
            [self.visitor, *self.inputs],
            outputs,
            **computing,
        )
        self.stop.click(
            self._stop,
            [self.visitor, self.clock],
            [*outputs, self.clock_note],
            cancels=[running],
            queue=False,
            **PRIVATE,
        )
        pressable_until_the_end(running, self.stop)
        for end in (running.then, running.failure):
            end(self._resumable, self.visitor, self.resume, queue=False, **PRIVATE)
        on_clock = [self.visitor, self.clock], [self.chart, self.clock_note]
        self.clock.input(self._on_clock, *on_clock, queue=False, **PRIVATE)
        self.go.click(lambda: "", None, self.clock_note, queue=False, **PRIVATE)
        running.success(self._on_clock, *on_clock, queue=False, **PRIVATE)
        outputs_in_watch = [tabs, *self.watch.outputs]
        refusing: dict[str, Any] = {
            "concurrency_limit": None,
            **PRIVATE,
        }  # in the queue, so that a refusal is shown
        cells = [self.visitor, self.watch.session]
        self.view.open_cell(self._open, cells, outputs_in_watch, **refusing)
        self.chart.point_select(self._picked, cells, outputs_in_watch, **refusing)
        self.saving.save_run(self._save, self.visitor, self.saving, **refusing)

    def _plan(self, *values: Any) -> tuple[Grid, list[Question], int, int]:
        """Return grid, prompts, repeats and length of the inputs; raises InvalidInput."""
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
        counts = (
            whole_number("repeats", repeats, MOST_REPEATS),
            whole_number("max_new_tokens", count, self.most_tokens),
        )
        return grid, questions, *counts

    def attach(self, blocks: gr.Blocks) -> None:
        """Estimate when the models are ready, and after every change."""
        ready = blocks.load(self.runner.models.until_ready, concurrency_limit=None, **PRIVATE)
        ready.then(self._estimate, self.inputs, self.estimate, queue=False, **PRIVATE)

    def _estimate(self, *values: Any) -> str:
        from ouroboros_core.sweeps.sweep import estimate, plain_runs

        try:
            loaded = self.runner.models.if_loaded(values[0])
            if loaded is None:
                return UNREADY
            grid, questions, repeats, count = self._plan(*values)
            seconds = estimate(loaded, grid, questions, repeats, count)
        except OuroborosError as error:
            return str(error)
        runs = len(grid.cells) * len(questions) * repeats
        duration = f"{round(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"
        plain = plain_runs(grid) * len(questions) * repeats
        product = (
            f"{counted(len(grid.cells), 'setting')}, {counted(len(questions), 'prompt')}, "
            f"{counted(repeats, 'repeat')}"
        )
        return (
            f"{runs} runs of {count} tokens ({product}), and {plain} of plain decoding: about "
            f"{duration} here at the speed of plain decoding."
        )

    def _start(
        self, request: gr.Request, event: gr.EventData, visitor: VisitorSweep, *values: Any
    ) -> Iterator[Any]:
        """Start or resume. One event for both buttons, because Stop ends only one event."""
        with errors_on_page():
            # by its id: Gradio copies a changed button for each visitor
            resumed = event.target is not None and event.target.elem_id == self.resume.elem_id
            job = SweepJob(self._again(visitor) if resumed else self._new(*values))
            updates = self.runner.submit(job, pair=values[0], visitor=visitor_id(request))
            yield from self._run(visitor, updates)

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
    def _resumable(visitor: VisitorSweep) -> Any:
        """Let Resume be pressed if the sweep has runs left."""
        swept = visitor.results
        return gr.update(interactive=swept is not None and swept.sweep.done < swept.sweep.total)

    @staticmethod
    def _again(visitor: VisitorSweep) -> Callable[[Pair], Sweep]:
        swept = visitor.results
        if swept is None:
            raise InvalidInput("There is no sweep to go on with.")
        return lambda _: swept.sweep

    def _run(self, visitor: VisitorSweep, updates: Iterator[Update]) -> Iterator[Any]:
        """Show the runs that are left of a sweep. The session keeps each, so Stop loses none.

        Charts come at the end: a browser that draws them on the same machine slows measured runs.
        """
        table: dict[str, Any] = {"done": 0, "total": 0, "left": 0}
        points = -1
        turn = uuid.uuid4().hex  # a resumed sweep is another turn
        swept: SweepResults | None = None
        for update in updates:
            match update:
                case Waiting():
                    status = update.status
                case SweepStarted():
                    swept, status = visitor.of(update.sweep), "Warming up …"
                case SweepProgress():
                    doing = update.status
                    status = f"Measuring: {doing}" if doing else "Warming up …"
                    if swept is not None and update.done is not None:
                        swept.add(update.done)
            if swept is not None and len(swept.sweep.points) != points:
                points = len(swept.sweep.points)  # else only the status is another
                table = sweeping.measured(swept)
            drawn = [gr.skip(), gr.skip()]
            if swept is not None and table.get("finished"):
                status, drawn = f"Done.{sweeping.left_out(swept)}", _drawn(swept)
            yield table | {"seq": time.time_ns(), "sweep": turn, "status": status}, *drawn

    @staticmethod
    def _stop(visitor: VisitorSweep, clock: str) -> list[Any]:
        """Show all runs so far, on the chosen clock, which a new sweep does not know."""
        stopped = {"seq": time.time_ns(), "stopped": True}
        if visitor.results is None:
            return [stopped, *(gr.skip() for _ in range(3))]
        with errors_on_page():
            _set_clock(visitor.results, clock)
        return [stopped, *_drawn(visitor.results), sweeping.note(visitor.results)]

    @staticmethod
    def _on_clock(visitor: VisitorSweep, clock: str) -> list[Any]:
        """Return the chart of all runs so far on another clock, and its best cell."""
        with errors_on_page():
            if visitor.results is None:
                return [gr.skip(), "Nothing is swept yet." if clock else ""]
            _set_clock(visitor.results, clock)
            return [sweeping.picture(visitor.results), sweeping.note(visitor.results)]

    def _picked(self, event: gr.EventData, visitor: VisitorSweep, session: Session) -> list[Any]:
        """Open the cell of a click on a chart; marks of theory have no cell."""
        cell = sent(event, "data")
        if not isinstance(cell, int):
            return [gr.skip() for _ in range(1 + len(self.watch.outputs))]
        with errors_on_page():
            return self._shown_cell(cell, visitor, session)

    def _open(self, event: gr.EventData, visitor: VisitorSweep, session: Session) -> list[Any]:
        with errors_on_page():
            return self._shown_cell(field(event, "cell", int), visitor, session)

    def _shown_cell(self, cell: int, visitor: VisitorSweep, session: Session) -> list[Any]:
        run = visitor.results.traces.get(cell) if visitor.results else None
        if run is None:
            raise InvalidInput("The run of this cell is no longer there: sweep again.")
        session.keep(run[0])
        return [gr.Tabs(selected=WATCH), *self.watch.show(session, *run)]

    @staticmethod
    def _save(event: gr.EventData, visitor: VisitorSweep) -> dict[str, Any]:
        if visitor.results is None or not visitor.results.sweep.points:
            return {"seq": time.time_ns(), "problem": NOTHING_YET}
        return sweeping.file_of(visitor.results, field(event, "kind", str))


def _set_clock(swept: SweepResults, clock: str) -> None:
    """Show a sweep on a clock; raises InvalidInput for an unknown one."""
    if clock and clock not in what_if_view.CLOCKS:
        raise InvalidInput(f"there is no clock {str(clock)[:40]!r}")
    swept.clock = clock


def _drawn(swept: SweepResults) -> list[Any]:
    """Return the two charts of all runs so far, if there are any."""
    if not swept.sweep.points:
        return [gr.skip(), gr.skip()]
    return [sweeping.picture(swept), sweeping.parallel(swept)]


@errors_on_page()
def _names(method: str, *, optional: bool) -> list[tuple[str, str]]:
    """Return the labels and names of settings that may vary."""
    from ouroboros_core.sampling import Sampling

    names = [*methods.get(method).Hyperparameters.settings(), *Sampling.settings(), "draft"]
    return [
        *([("nothing else", NONE)] if optional else []),
        *((labels.label(name), name) for name in names),
    ]


def _first(method: str, axis: int) -> str:
    return (
        NONE if axis else next(iter(methods.get(method).Hyperparameters.settings()), "temperature")
    )
