"""A run on another machine, for the page: modelled seconds and speedup, never measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor, log10
from typing import TYPE_CHECKING, Any, TypeVar

import plotly.graph_objects as go

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import Machine, ModelSize, Roofline, Work, price_work
from ouroboros_core.what_if.machines import Quoted, Sheets
from visualize.kit.plots import PLAIN, layout, plain, words_only
from visualize.run.diagnosis import adding_up
from visualize.run.view import View

if TYPE_CHECKING:
    from ouroboros_core.benchmark.store import Measurement
    from ouroboros_core.sweeps.cells import CellRow
    from ouroboros_core.sweeps.grid import Grid
    from visualize.results.data import Bar, Benchmark

BATCHES = (1, 2, 4, 8, 16, 32, 64)
MACHINE, TARGET, BATCH = "h100", "llama-3-70b", 1
"""What is chosen first."""
USUAL = "usual"
"""In place of a draft's id: the one that usually drafts for the target."""

MACHINE_NUMBERS = {
    "bandwidth": ("memory bandwidth, GB/s", 1e9),
    "flops": ("TFLOPS", 1e12),
    "memory": ("memory, GB", 1e9),
    "bandwidth_share": ("share of the bandwidth reached", 1.0),
    "flops_share": ("share of the FLOPS reached", 1.0),
    "layer_seconds": ("µs per layer", 1e-6),
    "pass_seconds": ("µs per pass", 1e-6),
    "host": ("work beside the passes, times as long", 1.0),
}
MODEL_NUMBERS = {
    "parameters": ("parameters of a pass, billions", 1e9),
    "output_parameters": ("of them in the output matrix, billions", 1e9),
    "bytes_per_parameter": ("bytes per parameter", 1.0),
    "layers": ("layers", 1.0),
    "kv_heads": ("KV heads", 1.0),
    "head_size": ("head size", 1.0),
    "kv_number_bytes": ("bytes of a number in the KV cache", 1.0),
}
"""Numbers that can be changed: label, and how much one of what is shown is."""


def choices() -> View:
    """Machines and models to choose from, with their numbers as they are shown."""
    sheets = machines.sheets()
    return {
        "machines": [
            {
                "id": name,
                "name": sheet.name,
                "numbers": _shown(sheet.machine, MACHINE_NUMBERS),
                "sources": _sources(sheets, name),
            }
            for name, sheet in sheets.machines.items()
        ],
        "models": [{"id": name, "name": sheet.name} for name, sheet in sheets.models.items()],
        "labels": {
            "machine": {name: label for name, (label, _) in MACHINE_NUMBERS.items()},
            "model": {name: label for name, (label, _) in MODEL_NUMBERS.items()},
        },
        "chosen": {"machine": MACHINE, "target": TARGET, "draft": USUAL, "batch": BATCH},
        "batches": list(BATCHES),
    }


def _shown(one: Machine | ModelSize, numbers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    return {name: float(f"{getattr(one, name) / unit:.5g}") for name, (_, unit) in numbers.items()}


def _sources(sheets: Sheets, name: str) -> dict[str, str]:
    numbers = sheets.machines[name].numbers
    return {what: sheets.sources[number.source][0] for what, number in numbers.items()}


Edited = TypeVar("Edited", Machine, ModelSize)


def _edited(one: Edited, asked: Any, numbers: Mapping[str, tuple[str, float]]) -> Edited:
    """With the numbers that a visitor has changed, which are as they are shown."""
    return machines.edited(one, _scaled(asked, numbers))


def _scaled(asked: Any, numbers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """What a visitor has changed, in the units of the core."""
    changed = {}
    for name, value in asked.items() if isinstance(asked, dict) else ():
        if name not in numbers:
            raise InvalidInput(f"there is no number {str(name)[:40]!r} to change")
        label, unit = numbers[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{label} must be a number, got {str(value)[:40]}")
        changed[name] = value * unit
    return changed


def quoted(trace: Trace, asked: Mapping[str, Any]) -> Quoted:
    """A run priced as a visitor asks.

    asked  machine, target, draft: ids; batch; numbers: {machine, target, draft}, each with what was
           changed, by name, in the units that are shown
    Raises InvalidInput for what cannot be priced.
    """
    numbers = asked.get("numbers")
    changed = numbers if isinstance(numbers, dict) else {}
    machine = machines.machine(str(asked.get("machine")))
    machine = _edited(machine, changed.get("machine"), MACHINE_NUMBERS)
    large, small = _sizes(trace, asked, _scaled(changed.get("target"), MODEL_NUMBERS))
    small = _edited(small, changed.get("draft"), MODEL_NUMBERS) if small else None
    batch = asked.get("batch")
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise InvalidInput(f"the batch must be a whole number, got {str(batch)[:40]}")
    return machines.quote_sizes(trace, machine, large, small, batch)


def _sizes(
    trace: Trace, asked: Mapping[str, Any], changed: Mapping[str, float] | None = None
) -> tuple[ModelSize, ModelSize | None]:
    """The target that is asked for, with what was changed, and what drafts for it in a run."""
    target, draft = str(asked.get("target")), str(asked.get("draft"))
    return machines.sizes(trace, target, None if draft == USUAL else draft, changed)


def _models(trace: Trace, asked: Mapping[str, Any]) -> View:
    """Both with the numbers that can be changed, as they are without a change of their own."""
    large, small = _sizes(trace, asked)
    numbers = asked.get("numbers")
    if small and isinstance(numbers, dict):
        small = _sizes(trace, asked, _scaled(numbers.get("target"), MODEL_NUMBERS))[1]
    sources = {one.name: one.source[0] for one in machines.sheets().models.values()}
    return {
        what: {
            "name": size.name,
            "numbers": _shown(size, MODEL_NUMBERS),
            "sources": dict.fromkeys(("parameters", "layers"), sources.get(size.name, "")),
        }
        for what, size in (("target", large), ("draft", small))
        if size
    }


def view(trace: Trace, asked: Mapping[str, Any]) -> View:
    """What the page shows of a run elsewhere, or why there is nothing."""
    models: View = {}
    try:
        models = _models(trace, asked)
        found = quoted(trace, asked)
        every = [found.at(batch) for batch in BATCHES]
    except InvalidInput as error:
        return {"problem": str(error), "models": models}
    run = found.priced
    return {
        "models": models,
        "said": found.sentence,
        "notes": list(found.notes),
        "rows": _rows(found),
        "time": staircases(found),
        "batch": by_batch(found.trace.method, every, run.batch),
    }


def _rows(found: Quoted) -> list[list[str]]:
    """Each part's name and its seconds in the run and in plain decoding; a column has one unit, and
    adds up as shown."""
    *names, whole = found.parts
    columns = []
    for seconds in zip(*(found.parts[name] for name in names), strict=True):
        short = sum(seconds) < 1
        unit, scale = ("ms", 1000) if short else ("s", 1)
        digits = max(0, 2 - floor(log10(scale * sum(seconds))))
        parts, total = adding_up([scale * one for one in seconds], digits)
        columns.append([f"{one:.{digits}f} {unit}" for one in (*parts, total)])
    return [list(row) for row in zip([*names, whole], *columns, strict=True)]


def staircases(found: Quoted) -> dict[str, Any]:
    """Tokens of a text against modelled seconds, for the run and for plain decoding."""
    figure = go.Figure()
    shown = (
        (found.priced.staircase(), words_only(found.trace.method), LOOKS["draft"].colour, "solid"),
        (found.priced.plain_staircase(), "plain decoding", PLAIN, "dot"),
    )
    for points, name, colour, dash in shown:
        figure.add_scatter(
            x=[seconds for seconds, _ in points],
            y=[tokens for _, tokens in points],
            name=name,
            mode="lines",
            line={"shape": "hv", "color": colour, "width": 2.5, "dash": dash},
            hovertemplate=f"tokens: %{{y}}<extra>{name}</extra>",
        )
    figure.update_layout(layout("modelled seconds", "tokens"))
    return plain(figure)


def by_batch(method: str, every: Sequence[Quoted], chosen: int) -> dict[str, Any]:
    """Modelled speedup over the size of the batch."""
    figure = go.Figure()
    figure.add_scatter(
        x=[str(one.priced.batch) for one in every],
        y=[one.priced.speedup for one in every],
        mode="lines+markers",
        name=words_only(method),
        line={"color": LOOKS["suffix"].colour, "width": 2.5},
        marker={"size": [12 if one.priced.batch == chosen else 7 for one in every]},
        hovertemplate="batch %{x}: %{y:.2f}×<extra></extra>",
    )
    figure.add_hline(
        y=1,
        line={"color": PLAIN, "dash": "dot", "width": 1.5},
        annotation_text="as fast as plain decoding",
    )
    shape = layout("texts at once", "modelled speedup", showlegend=False, hovermode="closest")
    figure.update_layout(shape)
    figure.update_xaxes(type="category")
    return plain(figure)


CLOCKS = {
    "laptop": ("laptop", 1),
    "rtx-4090": ("rtx-4090", 1),
    "h100": ("h100", 1),
    "h100-32": ("h100", 32),
}
"""Clocks that a race can be seen on besides its own: machine and texts at once."""
MANY = 100
"""Equal steps that a mean one stands for, so that their tokens are a whole number, nearly."""
RACED = "llama-3-8b"
"""The target on them, with the draft that usually drafts for it."""


def clock_names() -> list[tuple[str, str]]:
    """(id, what it is) of every modelled clock."""
    target = machines.model(RACED).name
    found = []
    for name, (machine, batch) in CLOCKS.items():
        texts = "" if batch == 1 else f", {batch} texts at once"
        found.append((name, f"modelled: {machines.machine(machine).name}, {target}{texts}"))
    return found


def clocks(trace: Trace) -> dict[str, list[float]]:
    """Of every modelled clock the seconds at the end of each step of a run."""
    return {
        name: [seconds for seconds, _ in found.priced.staircase()[1:]]
        for name, (machine, batch) in CLOCKS.items()
        for found in [machines.quote(trace, machines.machine(machine), RACED, batch=batch)]
    }


Taken = tuple[float, float, int]
"""Modelled seconds of a run, of plain decoding of as many tokens, and tokens."""


def taken(trace: Trace) -> dict[str, Taken]:
    """Of every modelled clock what a run would take there."""
    found = {}
    for name, (machine, batch) in CLOCKS.items():
        priced = machines.quote(trace, machines.machine(machine), RACED, batch=batch).priced
        found[name] = priced.seconds, priced.plain_seconds, len(trace.tokens)
    return found


def modelled_rows(
    rows: Sequence[CellRow], runs: Mapping[int, Sequence[Mapping[str, Taken]]], clock: str
) -> list[CellRow]:
    """The rows of a sweep with the speedup that is modelled for a clock, over the runs of each
    cell that are known; cells without any are left out."""
    found = []
    for row in rows:
        if known := [run[clock] for run in runs.get(row.cell, ())]:
            mine, theirs, tokens = (sum(column) for column in zip(*known, strict=True))
            speed = theirs / mine
            changes = {"speedup": speed, "ci95": (speed, speed), "tokens_per_second": tokens / mine}
            found.append(replace(row, runs=len(known), repeats=(), **changes))
    return found


def best_elsewhere(rows: Sequence[CellRow], here: Sequence[CellRow], grid: Grid, clock: str) -> str:
    """The best cell as modelled, beside the best one as measured; a sentence."""
    from ouroboros_core.sweeps.cells import best

    there, mine = best(rows), best(here)
    if there is None or mine is None:
        return "Nothing is measured yet."
    where = dict(clock_names())[clock].removeprefix("modelled: ")
    return (
        f"Modelled on {where}: best is {grid.describe(there.coordinates)}, {there.speedup:.2f}×. "
        f"Measured here: best is {grid.describe(mine.coordinates)}, {mine.speedup:.2f}×. "
        "Acceptance is taken as it was here."
    )


def benchmark_speedups(found: Benchmark) -> list[tuple[Bar, list[float]]]:
    """Every method of a benchmark that was measured with our own loop, and its modelled speedup on
    each clock, prefill left out: the mean step of all its runs, because a benchmark keeps sums.

    Draft passes count one row each; the union's drafter is the head.
    """
    from visualize.results.data import Family, Over

    others = (Family.PEER, Family.ENGINE, Family.PLAIN)
    bars = [bar for bar in found.bars(Over.PLAIN) if bar.family not in others]
    runs: dict[tuple[str, str], list[Measurement]] = {}
    for run in found.runs:
        runs.setdefault((run.method, run.setting), []).append(run)
    size, small = machines.model(RACED), machines.usual_draft(RACED)
    table = []
    for bar in bars:
        mean = _mean_work(runs[bar.row.method, bar.row.setting])
        steps = [replace(mean, context=n * mean.tokens) for n in range(MANY)]
        headed = bar.family in (Family.HEAD, Family.UNION)
        draft = size.head if headed else machines.model(str(small))
        speeds = []
        for machine, batch in CLOCKS.values():
            mine, its = (Roofline(machines.machine(machine), one) for one in (size, draft))
            speeds.append(price_work(steps, 1, mine, its, batch).decode_speedup)
        table.append((bar, speeds))
    return table


def _mean_work(runs: Sequence[Measurement]) -> Work:
    """The mean step, with an empty context: prompts are not kept."""
    passes = sum(run.passes for run in runs)
    tokens, drafts = sum(run.tokens for run in runs), sum(run.draft_passes for run in runs)
    host = sum(run.seconds.learn + run.seconds.host for run in runs)
    host += 0.0 if drafts else sum(run.seconds.draft for run in runs)
    return Work(
        rows=sum(run.rows for run in runs) / passes,
        tokens=tokens / passes,
        context=0,
        draft_passes=drafts / passes,
        host=host / passes,
    )
