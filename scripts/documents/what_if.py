"""The tables of docs/what-if.md."""

from __future__ import annotations

from typing import Any

from ouroboros_core.what_if import machines


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
