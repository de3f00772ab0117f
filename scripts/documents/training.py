"""The tables of docs/training.md."""

from __future__ import annotations

import json

from ouroboros_core.locations import assets
from ouroboros_core.training.folder import agreement_of
from visualize.drafts.tab import records


def drafts_section() -> str:
    """Return the drafts that ship, by the records of their training."""
    lines = [
        "| folder | what | answer tokens trained on | minutes, CPU and GPU runs together | "
        "held-out agreement, 1, 2, 3 tokens ahead | MB |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, record in records().items():
        folder = assets() / "models" / name
        last = record["curve"][-1]
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        agreement = ", ".join(f"{share:.0%}" for share in agreement_of(last))
        shape = record["shape"].partition(";")[0]
        lines.append(
            f"| [{name}](../assets/models/{name}/README.md) | {shape} | "
            f"{last['tokens']:,} | {last['seconds'] / 60:.0f} | {agreement} | {size:.1f} |"
        )
    return "\n".join([*lines, ""])


def shapes_table() -> str:
    """Return the speeds of drafts of several shapes, the fastest first (docs/training.md)."""
    file = assets() / "models" / "shapes.json"
    drafts = json.loads(file.read_text(encoding="utf-8"))["drafts"]
    lines = ["| draft | c | agreement | speedup |", "|---|---:|---:|---:|"]
    for draft in sorted(drafts, key=lambda draft: -max(draft["speed"].values())):
        lines.append(
            f"| {draft['shape'].partition(';')[0]} | {draft['cost']:.3f} | "
            f"{draft['agreement']:.1%} | {max(draft['speed'].values()):.2f} |"
        )
    return "\n".join([*lines, ""])
