"""A comparison as plain data for the browser, and the recorded one that is shown at first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ouroboros_core.messages import say
from ouroboros_core.sweeps.cells import GAMMA, by_theory
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary, Verdict
from visualize.compare import figures
from visualize.compare.comparison import PLAIN, Comparison, Plan, SideBySide
from visualize.compare.job import CompareStarted, CompareUpdate, Ran, Running
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.run import view as views
from visualize.run.strip import strip
from visualize.run.view import View
from visualize.server.jobs import Waiting
from visualize.what_if import view as what_if_view

if TYPE_CHECKING:
    from ouroboros_core.sweeps.cells import CellRow, Ideal
    from ouroboros_core.trace.speedup import Speedup
    from ouroboros_core.trace.trace import Trace
    from visualize.server.jobs import Update

TEXTS = {
    Verdict.TIE: "same text up to a rounding tie",
    Verdict.DIFFERENT: "another text",
    Verdict.NOT_LOSSLESS: "not lossless",
}
"""Remarks on texts that are not simply those of plain decoding."""
CAPTIONS = {
    GAMMA: "What a longer guess gains, and what it costs",
    "stop": "When should it stop?",
}
CAPTION = "What each value gains, and what it costs"
"""Titles of the chart by the setting that varies, and of any other setting."""
PREDICTED = (
    "Hollow points are predicted from the one run that was measured. Choose more values and press "
    "Measure here to replace them."
)


def begun(comparison: Comparison, badge: str) -> View:
    """Return the view of a comparison with all rows so far."""
    plan = comparison.plan
    lanes = [lane for lane in range(len(comparison.names)) if comparison.rounds(lane)]
    return {
        "seq": time.time_ns(),
        "badge": badge,
        "where": comparison.where,
        "prompts": list(plan.prompts),
        "size": comparison.size,
        "tokens": plan.tokens,
        "method": plan.grid.method,
        "axes": [{"name": axis.name, "values": _texts(axis.values)} for axis in plan.grid.axes],
        "names": comparison.names,
        "values": [[], *(_texts(cell.coordinates) for cell in plan.grid.cells)],
        "rows": [row(comparison, lane) for lane in lanes],
        **drawn(comparison),
    }


def _texts(values: Any) -> list[str]:
    from ouroboros_core.sweeps.grid import show

    return [show(value) for value in values]


def row(comparison: Comparison, lane: int) -> View:
    """Return a row of a lane: the runs of the round with the median speedup."""
    shown = comparison.shown(lane).values()
    view = _row(lane, [trace for trace, _ in shown], [plain for _, plain in shown])
    if lane == PLAIN:
        return view
    speedup, verdict = comparison.speedup(lane), comparison.verdict(lane)
    busy = any(summary.busy for summary in comparison.summaries(lane))
    return view | {"each": _rounded(speedup), "busy": busy, "text": TEXTS.get(verdict, "")}


def _row(lane: int, traces: Sequence[Trace], plain: Sequence[Trace]) -> View:
    """Return a row without its speedups.

    plain  seconds of plain decoding in that round; runs: by prompt the texts of the tokens;
    clocks: by modelled clock, the seconds of each step
    """
    return {
        "lane": lane,
        "each": [],
        "busy": False,
        "text": "",
        "plain": sum(map(metrics.total_seconds, plain)),
        "runs": [list(trace.texts) for trace in traces],
        "clocks": _modelled(traces),
        **strip(*traces),
    }


def _rounded(speedup: Speedup | None) -> list[float]:
    return [round(value, 4) for value in speedup.each] if speedup else []


def side_by_side(runs: SideBySide) -> View:
    """Return the view of two runs."""
    plain = runs.first.baseline or runs.second.baseline
    rows = [_row(PLAIN, [plain], [plain])] if plain else []
    for lane, run in enumerate((runs.first, runs.second), 1):
        baseline = [run.baseline] if run.baseline else []
        summary = Summary(run.trace, run.baseline, rounds=run.speedup)
        each = _rounded(run.speedup) or ([summary.speedup] if summary.speedup else [])
        busy = summary.busy is not None
        rows.append(_row(lane, [run.trace], baseline) | {"each": each, "busy": busy})
    first = runs.first.trace
    named = (labels.run(run.trace.method, run.trace.hyperparameters) for run in vars(runs).values())
    return {
        "seq": time.time_ns(),
        "badge": "two runs of this visit",
        "where": views.model_name(first.target),
        "prompts": [first.prompt.text],
        "size": "",
        "method": "",
        "axes": [],
        "names": [labels.method(gallery.PLAIN), *named],
        "values": [[]],
        "rows": rows,
        "theory": [],
        "done": True,
    }


def _modelled(traces: Sequence[Trace]) -> dict[str, list[float]]:
    """Return the modelled seconds of each step, of all runs one after another."""
    steps: dict[str, list[float]] = {}
    for trace in traces:
        for clock, ends in what_if_view.clocks(trace).items():
            before = [0.0, *ends]
            lengths = (round(end - start, 5) for start, end in zip(before, ends, strict=False))
            steps.setdefault(clock, []).extend(lengths)
    return steps


def stream(
    updates: Iterator[Update], plan: Plan, badge: str = views.LIVE
) -> Iterator[tuple[View, Comparison]]:
    """Yield the view after each update of a job, empty if nothing is new, and the comparison, which
    grows."""
    comparison = Comparison(plan, "")
    for update in updates:
        view: View = {"seq": time.time_ns(), "done": False}
        if isinstance(update, CompareUpdate):
            view["left"] = update.left
        match update:
            case Waiting(status=status):
                view["status"] = status
            case CompareStarted(where=where, refused=refused):
                comparison.where, comparison.refused = where, refused
                view |= begun(comparison, badge)
            case Running(lane=lane):
                view["running"] = lane
            case Ran():
                view |= grown(comparison, update)
            case _:
                view = {}
        yield view, comparison
    yield {"seq": time.time_ns(), **ended(comparison)}, comparison


def grown(comparison: Comparison, ran: Ran) -> View:
    """Add a run; return the rows that changed, and the chart."""
    number, prompt, lane = ran.unit
    comparison.runs[ran.unit] = ran.trace
    if number == 0:
        comparison.differences[prompt, lane] = ran.difference
    if number not in comparison.rounds(lane):
        return {}
    lanes = range(len(comparison.names)) if lane == PLAIN else [lane]
    changed = [number for number in lanes if comparison.rounds(number)]
    return {"rows": [row(comparison, number) for number in changed], **drawn(comparison)}


def ended(comparison: Comparison) -> View:
    """Return the last update, with remarks on rows that were left out and rounds that were cut."""
    names = comparison.names
    lines = [f"Left out: {names[lane]} ({why})." for lane, why in comparison.refused.items()]
    if len(comparison.runs) < comparison.total:
        lines.append("This took as long as it may; what was measured stays.")
    return {"done": True, "notes": lines}


def fault(words: str) -> View:
    """Return the update that says why nothing is measured."""
    return {"seq": time.time_ns(), "done": True, "fault": words}


def table(comparison: Comparison) -> View:
    """Return all rows as a CSV file."""
    from ouroboros_core.sweeps import cells

    grid = comparison.plan.grid
    rows = comparison.table
    names = [comparison.names[lane] for lane in rows]
    text = cells.to_csv([*rows.values()], grid.axes, names)
    return {"name": f"compare-{grid.method}.csv", "type": "text/csv", "text": text}


def drawn(comparison: Comparison) -> View:
    """Return the chart with its caption, and the sentence of the theory."""
    rows, ideals, axes = comparison.rows, comparison.ideals, comparison.plan.grid.axes
    words = by_theory(ideals, axes, labels.named)
    if len(axes) == 2:
        caption = "The speedup of each combination"
        return {"figure": figures.heatmap(rows, axes, ideals), "theory": words, "caption": caption}
    words += _measured_otherwise(rows, ideals)
    predicted = comparison.predicted
    if predicted:
        words.append(PREDICTED)
    figure = figures.trade_off(rows, axes, ideals, predicted, comparison.others)
    return {"figure": figure, "theory": words, "caption": CAPTIONS.get(axes[0].name, CAPTION)}


def _measured_otherwise(rows: Sequence[CellRow], ideals: Sequence[Ideal]) -> list[str]:
    """Return why another draft length than the theory's was fastest; nothing if none was."""
    lengths = {row.coordinates[0]: row for row in rows}
    numbers = [row for length, row in lengths.items() if not isinstance(length, str)]
    if len(ideals) != 1 or len(numbers) < 2:
        return []
    fastest = max(numbers, key=lambda row: row.speedup)
    (ideal,), measured = ideals, fastest.coordinates[0]
    if measured == ideal.gamma:
        return []
    words = f"Measured, {measured} is the fastest: {fastest.speedup:.2f}×."
    chosen = lengths.get(ideal.gamma)
    if chosen is None:
        return [f"{words} {ideal.gamma} was not measured."]
    if chosen.bounds[1] >= fastest.bounds[0]:
        return [f"{words} It cannot be told from {ideal.gamma}: their ranges overlap."]
    if int(measured) > ideal.gamma:
        return [words]
    reason = "counts a pass over several rows like a plain one, and all guesses as equally likely"
    return [f"{words} The theory is too hopeful: it {reason} to be right."]


@cache
def _recorded_prompt() -> str:
    """Return the first prompt of the grid that is recorded."""
    recorded_prompts = gallery.recorded_prompts()
    prompts: list[str] = gallery.plan()["grid"]["prompts"]
    return next(prompt for prompt in prompts if prompt in recorded_prompts)


@cache
def recorded_names() -> list[str]:
    """Return the names of the runs of the recorded comparison by lane: plain decoding, the cells,
    other methods."""
    places = {gallery.PLAIN: 0, gallery.plan()["grid"]["method"]: 1}
    runs = {n: of for n, of in gallery.runs().items() if of["prompt"] == _recorded_prompt()}
    return sorted(runs, key=lambda name: places.get(gallery.paced(name).method, 2))


@cache
def recorded() -> Comparison:
    """Return the recorded comparison: all runs of `_recorded_prompt`, each in the seconds of its
    plain run."""
    from ouroboros_core.sweeps.grid import Axis, Grid

    facts, prompt, lanes = gallery.plan()["grid"], _recorded_prompt(), recorded_names()
    method, varied = facts["method"], facts["vary"]
    traces = {name: gallery.paced(name) for name in lanes}
    cells = {n: trace for n, trace in traces.items() if trace.method == method}
    others = {n: t for n, t in traces.items() if t.method not in (method, gallery.PLAIN)}
    values = tuple(trace.hyperparameters[varied] for trace in cells.values())
    plan = Plan(
        prompts=(gallery.plan()["prompts"][prompt]["text"],),
        grid=Grid(method, (Axis(varied, values),)),
        others=tuple(trace.method for trace in others.values()),
        tokens=gallery.plan()["prompts"][prompt]["tokens"],
        rounds=1,
    )
    speedups = {lane: gallery.speedup(name) for lane, name in enumerate(lanes)}
    return Comparison(
        plan,
        traces[lanes[PLAIN]].environment.where,
        runs={(0, 0, lane): traces[name] for lane, name in enumerate(lanes)},
        repeats={lane: speedup for lane, speedup in speedups.items() if speedup},
    )


def recorded_view() -> View:
    """Return the view of the recorded comparison."""
    comparison = recorded()
    plain = comparison.runs[0, 0, PLAIN]
    facts = {"recorded": True, "done": True, "status": say("compare.scaled")}
    return begun(comparison, views.badge(plain, model=True)) | facts
