"""The tables of docs/what-if.md."""

from __future__ import annotations

from typing import Any

from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery

RECORDED, MACHINE = "java-speculative", "h200"
"""The run that is priced for larger pairs, and the machine."""
PAIRS = (("llama-3-8b", "llama-3.2-1b"), ("qwen2.5-7b", "qwen2.5-0.5b"))
"""Targets and drafts that have no measured run."""
LAUNCHED = 0.001
"""Seconds per layer of a program that launches every kernel from Python, see docs/what-if.md."""


def predicted() -> str:
    """Return the predicted speedups of larger pairs on a GPU (README.md)."""
    machine = machines.machine(MACHINE)
    pairs = " and ".join(
        f"{_speedup(target, draft):.2f} times for {machines.model(target).name} with "
        f"{machines.model(draft).name.rpartition(' ')[2]}"
        for target, draft in PAIRS
    )
    slow = " and ".join(f"{_speedup(*pair, LAUNCHED):.2f}" for pair in PAIRS)
    return (
        f"**Predicted, not measured**, for code on one {machine.name}: speculative decoding gains "
        f"{pairs} over plain decoding with our own passes, {slow} with transformers' "
        "([how](docs/models.md#your-own-pair)).\n"
    )


def predictions() -> str:
    """Return the same with the commands (docs/models.md)."""
    rows = [
        f"| `--target {target} --draft {draft}` | {_speedup(target, draft):.2f} | "
        f"{_speedup(target, draft, LAUNCHED):.2f} |"
        for target, draft in PAIRS
    ]
    command = f"`ouroboros what-if assets/traces/{RECORDED}.json --machine {MACHINE}` with"
    heads = f"| {command} | our passes | `--set layer_seconds={LAUNCHED}`: transformers' |"
    return "\n".join([heads, "|---|---:|---:|", *rows, ""])


def _speedup(target: str, draft: str, layer_seconds: float | None = None) -> float:
    """Return the modelled speedup of the run with another pair."""
    machine = machines.machine(MACHINE)
    if layer_seconds is not None:
        machine = machines.edited(machine, {"layer_seconds": layer_seconds})
    return machines.quote(gallery.trace(RECORDED), machine, target, draft).priced.speedup


def machines_table() -> str:
    """Return the machines that a run can be priced on, with sources."""
    sheets = machines.sheets()
    lines = [
        "| id | machine | GB/s | TFLOPS | GB | share of bandwidth reached | µs per layer | "
        "sources |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
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
        lines.append(f"| `{name}` | {sheet.name} | {' | '.join(cells)} |")
    lines.append("")
    for source, number in used.items():
        document, address = sheets.sources[source]
        lines.append(f"{number}. {document}{f': <{address}>' if address else ''}")
    return "\n".join(lines) + "\n"


def models_table() -> str:
    """Return the models that a run can be priced with, by their configurations."""
    sheets = machines.sheets()
    lines = [
        "| id | model | parameters | of them in a pass | layers | KV bytes per token | "
        "usual draft | source |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for name, sheet in sheets.models.items():
        document, address = sheet.source
        source = f"[{document}]({address})" if address else document
        draft = f"`{sheet.draft}`" if sheet.draft else ""
        lines.append(
            f"| `{name}` | {sheet.name} | {sheet.total / 1e9:.3g} B | "
            f"{sheet.size.parameters / 1e9:.3g} B | {sheet.layers} | {sheet.size.kv_bytes:,.0f} | "
            f"{draft} | {source} |"
        )
    return "\n".join(lines) + "\n"


def _quoted(numbers: dict[str, Any], name: str, scale: float) -> str:
    number = numbers.get(name)
    return f"{number.value * scale:.4g}" if number else "–"
