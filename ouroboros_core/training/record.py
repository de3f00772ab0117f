"""The record of a training run, as the page and the model card read it; no torch."""

from __future__ import annotations

from typing import Any


def agreement_of(point: dict[str, Any]) -> list[float]:
    """Agreement one token ahead, two ..., at a point of a recorded training run."""
    found = point["agreement"]
    return [float(share) for share in found] if isinstance(found, list) else [float(found)]
