"""Draft shapes: the cost and the yield of each trained draft, as assets/models/shapes.json has
them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

GAMMAS = (1, 2, 4)


@dataclass(frozen=True)
class Measured:
    """A draft's figures; speeds are relative to plain decoding.

    agreement        held-out, from its record
    tokens           it was trained on
    cost             c
    tokens_per_pass  by draft length
    speed            by draft length
    """

    name: str
    shape: str
    tokens: int
    agreement: float
    cost: float
    tokens_per_pass: dict[int, float]
    speed: dict[int, float]

    @property
    def best(self) -> int:
        """The draft length at which it is fastest."""
        return max(self.speed, key=lambda gamma: self.speed[gamma])


def table(rows: Sequence[Measured]) -> str:
    """A markdown table, the fastest first."""
    heads = [f"tokens per pass, γ = {g}" for g in GAMMAS]
    lines = [
        f"| draft | fastest | c | agreement | {' | '.join(heads)} | trained tokens |",
        f"|---|---:|---:|---:|{'---:|' * len(heads)}---:|",
    ]
    for row in sorted(rows, key=lambda r: -r.speed[r.best]):
        per_pass = " | ".join(f"{row.tokens_per_pass[g]:.2f}" for g in GAMMAS)
        speed = f"{row.speed[row.best]:.2f} at γ = {row.best}"
        lines.append(
            f"| {row.shape} | {speed} | {row.cost:.3f} | {row.agreement:.1%} | {per_pass} | "
            f"{row.tokens:,} |"
        )
    return "\n".join(lines)


def read(path: Path) -> list[Measured]:
    """Return the measurements of a file."""
    return TypeAdapter(list[Measured]).validate_python(
        json.loads(path.read_text(encoding="utf-8"))["drafts"]
    )
