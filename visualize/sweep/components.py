"""The component that shows a sweep."""

from __future__ import annotations

from typing import Any

from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup

SWEEP_VIEW = markup("sweep/sweep_view", "open_cell")


class SweepView(JsonHTML):
    """A sweep, under way or done. A cell triggers `open_cell`.

    Value: {seq, sweep, status, done, total, left, lines?, head?, rows?, finished?} or {seq,
    stopped}."""

    def __init__(self, value: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(value, SWEEP_VIEW, **options)
