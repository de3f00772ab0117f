"""The tables of docs/what-if.md, and the predictions of README.md and docs/models.md."""

from __future__ import annotations

from typing import Any

from ouroboros_core.locations import assets
from ouroboros_core.trace.summary import Summary
from ouroboros_core.what_if import machines
from scripts.documents.markdown import table
from visualize.gallery import runs as gallery

RECORDED, MACHINE = "java-speculative", "h200"
"""The run that is priced for larger pairs, and the machine."""
PAIRS = (("llama-3-8b", "llama-3.2-1b"), ("qwen2.5-7b", "qwen2.5-0.5b"))
"""Targets and drafts that have no measured run."""
TIMED, ENGINES = ("Llama-3 8B", "Llama-3.2 1B"), ("CUDA graphs", "transformers")
"""Target and draft whose single passes docs/gpu.md has, and who computed them."""
LAUNCHED = 0.001
"""Seconds per layer of a program that launches every kernel from Python, see docs/what-if.md."""


def predicted() -> str:
    """Return what passes that were timed on a GPU promise for a whole run (README.md)."""
    ours, theirs = (_milliseconds(TIMED[0], engine)[0] for engine in ENGINES)
    slow, fast = (_speedup(*PAIRS[1], seconds) for seconds in (LAUNCHED, None))
    return (
        "In this script transformers computes the passes. Ours, in CUDA graphs, are faster: a "
        f"{TIMED[0]} pass (random weights) takes [{ours} ms on an H200, against about "
        f"{round(theirs, -1):.0f} in transformers](docs/gpu.md#measured-on-an-h200). **Estimated, "
        f"not measured**, and optimistic: {slow:.1f} times the speed of plain decoding in this "
        f"script, {fast:.1f} times with our passes, for one piece of code, by `speculative` with "
        "these two models ([how](docs/models.md#your-own-pair)). In bfloat16, a near tie between "
        "two tokens can change the text. `ouroboros doctor --gpu` measures your GPU.\n"
    )


def predictions() -> str:
    """Return predicted speedups of larger pairs, with the commands (docs/models.md)."""
    rows = []
    for target, draft in PAIRS:
        speedups = (_speedup(target, draft, seconds) for seconds in (None, LAUNCHED))
        rows.append((f"`--target {target} --draft {draft}`", *map("{:.2f}".format, speedups)))
    command = f"`ouroboros what-if assets/traces/{RECORDED}.json --machine {MACHINE}` with"
    heads = f"{command} | our passes: | `--set layer_seconds={LAUNCHED}`: transformers':"
    run = Summary(gallery.trace(RECORDED))
    (ours, ours_later), (theirs, theirs_later) = map(_by_timed_passes, ENGINES)
    timed = (
        f"With the [passes timed on an H200](gpu.md#measured-on-an-h200), the run's {run.steps} "
        f"target and {run.draft_passes} draft passes for {run.tokens} tokens are a speedup of "
        f"{ours:.2f} after 100 tokens and {ours_later:.2f} after 2,000 for 8B with 1B; with "
        f"transformers' passes {theirs:.2f} and {theirs_later:.2f}."
    )
    return f"{table(heads, rows)}\n{timed}\n"


def _by_timed_passes(engine: str) -> list[float]:
    """Return the speedups of the recorded run with the passes of docs/gpu.md, after 100 tokens and
    after 2,000. Its trees have at most 8 rows; after 2,000 tokens the next width timed is 64."""
    run = Summary(gallery.trace(RECORDED))
    target, draft = (_milliseconds(shape, engine) for shape in TIMED)
    return [
        run.tokens * target[row] / (run.steps * target[rows] + run.draft_passes * draft[row])
        for row, rows in ((0, 1), (4, 5))
    ]


def _milliseconds(shape: str, engine: str) -> list[float]:
    """Return the times in a row of docs/gpu.md: 1, 8, 64 and 256 rows after 100 tokens, 1 and 64
    after 2,000; nan if a width has none."""
    lines = (assets().parent / "docs" / "gpu.md").read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {shape} |"))
    row = next(line for line in lines[start:] if f"| {engine} |" in line)
    cells = row.split("|")[3:-1]
    return [float(cell.replace("–", "nan")) for cell in cells]


def _speedup(target: str, draft: str, layer_seconds: float | None = None) -> float:
    """Return the modelled speedup of the run with another pair."""
    machine = machines.machine(MACHINE)
    if layer_seconds is not None:
        machine = machines.edited(machine, {"layer_seconds": layer_seconds})
    return machines.quote(gallery.trace(RECORDED), machine, target, draft).priced.speedup


def machines_table() -> str:
    """Return the machines that a run can be priced on, with sources."""
    sheets = machines.sheets()
    rows = []
    used: dict[str, int] = {}
    for name, sheet in sheets.machines.items():
        numbers = sheet.numbers
        marks = [used.setdefault(n.source, len(used) + 1) for n in numbers.values()]
        cells = [
            _quoted(numbers, field, scale)
            for field, scale in (
                ("bandwidth", 1e-9),
                ("flops", 1e-12),
                ("memory", 1e-9),
                ("bandwidth_share", 1),
                ("layer_seconds", 1e6),
            )
        ]
        cells.append(", ".join(f"[{n}]" for n in sorted(set(marks))))
        rows.append((f"`{name}`", sheet.name, *cells))
    heads = "GB/s: | TFLOPS: | GB: | share of bandwidth reached: | µs per layer: | sources"
    lines = [table(f"id | machine | {heads}", rows)]
    for source, number in used.items():
        document, address = sheets.sources[source]
        lines.append(f"{number}. {document}{f': <{address}>' if address else ''}")
    return "\n".join(lines) + "\n"


def models_table() -> str:
    """Return the models that a run can be priced with, by their configurations."""
    sheets = machines.sheets()
    rows = []
    for name, sheet in sheets.models.items():
        document, address = sheet.source
        source = f"[{document}]({address})" if address else document
        draft = f"`{sheet.draft}`" if sheet.draft else ""
        billions = (f"{count / 1e9:.3g} B" for count in (sheet.total, sheet.size.parameters))
        numbers = *billions, str(sheet.layers), f"{sheet.size.kv_bytes:,.0f}"
        rows.append((f"`{name}`", sheet.name, *numbers, draft, source))
    heads = "parameters: | of them in a pass: | layers: | KV bytes per token: | usual draft"
    return table(f"id | model | {heads} | source", rows)


def _quoted(numbers: dict[str, Any], name: str, scale: float) -> str:
    number = numbers.get(name)
    return f"{number.value * scale:.4g}" if number else "–"
