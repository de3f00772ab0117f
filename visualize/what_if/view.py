"""A run on another machine, for the page: modelled seconds and speedup, never measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

import plotly.graph_objects as go

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.trace import Trace
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import Machine, ModelSize
from ouroboros_core.what_if.machines import Quoted
from visualize.kit.plots import INK, PLAIN, layout, mark_plain, plain, words_only
from visualize.run.diagnosis import adding_up
from visualize.run.view import View

BATCHES = (1, 2, 4, 8, 16, 32, 64)
MACHINE, TARGET, BATCH = "h100", "llama-3-70b", 1
"""The first choice on the page."""
USUAL = "usual"
"""Replaces a draft's id: the model that usually drafts for the target."""

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
"""Numbers that a visitor can change: label, and the size of the shown unit."""


def choices() -> View:
    """Return the machines and models to choose from, with their numbers in shown units."""
    sheets = machines.sheets()
    return {
        "machines": [
            {
                "id": name,
                "name": sheet.name,
                "numbers": _shown(sheet.machine, MACHINE_NUMBERS),
                "sources": {
                    key: sheets.sources[number.source][0] for key, number in sheet.numbers.items()
                },
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


def _shown(item: Machine | ModelSize, numbers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    return {name: float(f"{getattr(item, name) / unit:.5g}") for name, (_, unit) in numbers.items()}


def _scaled(request: Any, numbers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """Return a visitor's changes in the units of the core."""
    changed = {}
    for name, value in request.items() if isinstance(request, dict) else ():
        if name not in numbers:
            raise InvalidInput(f"there is no number {str(name)[:40]!r} to change")
        label, unit = numbers[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{label} must be a number, got {str(value)[:40]}")
        changed[name] = value * unit
    return changed


def quoted(trace: Trace, request: Mapping[str, Any]) -> Quoted:
    """Return the price of a run on a visitor's request.

    request  machine, target, draft: ids; batch; numbers: {machine, target, draft}, each with
             changed numbers by name, in shown units
    Raises InvalidInput if the run cannot be priced.
    """
    numbers = request.get("numbers")
    changed = numbers if isinstance(numbers, dict) else {}
    machine = machines.machine(str(request.get("machine")))
    machine = machines.edited(machine, _scaled(changed.get("machine"), MACHINE_NUMBERS))
    large, small = _sizes(trace, request, _scaled(changed.get("target"), MODEL_NUMBERS))
    if small:
        small = machines.edited(small, _scaled(changed.get("draft"), MODEL_NUMBERS))
    batch = request.get("batch")
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise InvalidInput(f"the batch must be a whole number, got {str(batch)[:40]}")
    return machines.quote_sizes(trace, machine, large, small, batch)


def _sizes(
    trace: Trace, request: Mapping[str, Any], changed: Mapping[str, float] | None = None
) -> tuple[ModelSize, ModelSize | None]:
    target, draft = str(request.get("target")), str(request.get("draft"))
    return machines.sizes(trace, target, None if draft == USUAL else draft, changed)


def _models(trace: Trace, request: Mapping[str, Any]) -> View:
    """Return target and drafter with the numbers that a visitor can change, before the changes."""
    large, small = _sizes(trace, request)
    numbers = request.get("numbers")
    if small and isinstance(numbers, dict):
        small = _sizes(trace, request, _scaled(numbers.get("target"), MODEL_NUMBERS))[1]
    sources = {sheet.name: sheet.source[0] for sheet in machines.sheets().models.values()}
    return {
        role: {
            "name": size.name,
            "numbers": _shown(size, MODEL_NUMBERS),
            "sources": dict.fromkeys(("parameters", "layers"), sources.get(size.name, "")),
        }
        for role, size in (("target", large), ("draft", small))
        if size
    }


def view(trace: Trace, request: Mapping[str, Any]) -> View:
    """Return the view of a run on another machine, or the reason for its absence."""
    models: View = {}
    try:
        models = _models(trace, request)
        quote = quoted(trace, request)
        every = [quote.at(batch) for batch in BATCHES]
    except InvalidInput as error:
        return {"problem": str(error), "models": models}
    run = quote.priced
    return {
        "models": models,
        "said": quote.sentence,
        "notes": list(quote.notes),
        "rows": _rows(quote),
        "time": staircases(quote),
        "batch": by_batch(quote.trace.method, every, run.batch),
    }


def _rows(quote: Quoted) -> list[list[str]]:
    """Return each phase's name and its seconds in the run and in plain decoding.

    A column has one unit, and its shown numbers add up.
    """
    *names, sum_name = quote.parts
    columns = []
    for seconds in zip(*(quote.parts[name] for name in names), strict=True):
        short = sum(seconds) < 1
        unit, scale = ("ms", 1000) if short else ("s", 1)
        digits = max(0, 2 - floor(log10(scale * sum(seconds))))
        phases, total = adding_up([scale * value for value in seconds], digits)
        columns.append([f"{value:.{digits}f} {unit}" for value in (*phases, total)])
    return [list(row) for row in zip([*names, sum_name], *columns, strict=True)]


def staircases(quote: Quoted) -> dict[str, Any]:
    """Tokens of a text against modelled seconds, for the run and for plain decoding."""
    figure = go.Figure()
    lines = (
        (quote.priced.staircase(), words_only(quote.trace.method), INK, "solid"),
        (quote.priced.plain_staircase(), "plain decoding", PLAIN, "dot"),
    )
    for points, name, colour, dash in lines:
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
        x=[str(quote.priced.batch) for quote in every],
        y=[quote.priced.speedup for quote in every],
        mode="lines+markers",
        name=words_only(method),
        line={"color": INK, "width": 2.5},
        marker={"size": [12 if quote.priced.batch == chosen else 7 for quote in every]},
        hovertemplate="batch %{x}: %{y:.2f}×<extra></extra>",
    )
    mark_plain(figure, "as fast as plain decoding")
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
"""Modelled clocks of a comparison: machine, and number of texts at once."""
RACED = "llama-3-8b"
"""The target on these clocks; the model that usually drafts for it is its draft."""


def clock_names() -> list[tuple[str, str]]:
    """Return (id, description) of every modelled clock."""
    target = machines.model(RACED).name
    names = []
    for name, (machine, batch) in CLOCKS.items():
        texts = "" if batch == 1 else f", {batch} texts at once"
        names.append((name, f"modelled: {machines.machine(machine).name}, {target}{texts}"))
    return names


def clocks(trace: Trace) -> dict[str, list[float]]:
    """Return for every modelled clock the seconds at the end of each step of a run."""
    return {
        name: [seconds for seconds, _ in quote.priced.staircase()[1:]]
        for name, (machine, batch) in CLOCKS.items()
        for quote in [machines.quote(trace, machines.machine(machine), RACED, batch=batch)]
    }
