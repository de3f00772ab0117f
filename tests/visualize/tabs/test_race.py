"""What the lanes of a race are asked for with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from visualize.tabs.race import RacePanel, _help


def tasks(*lanes: tuple[str, str]) -> list[tuple[str, Any]]:
    panel: Any = SimpleNamespace(most=64)
    sampling = {"temperature": 0.0, "seed": 0}
    return RacePanel._tasks(panel, "Hello", 16, False, sampling, lanes)


def test_a_lane_may_begin_with_the_settings_of_a_paper_and_is_named_after_them() -> None:
    typed = (
        ("lookahead", "published"),
        ("lookahead", "published, window_size = 7"),
        ("speculative", "gamma=2"),
        ("union", ""),
    )
    found = tasks(*typed)
    assert [name for name, _ in found] == [
        "autoregressive",
        "lookahead[published]",
        "lookahead[published, window_size=7]",
        "speculative[gamma=2]",
        "union",
    ]
    published = dict(methods.get("lookahead").published)
    chosen = [task.hyperparameters.model_dump() for _, task in found]
    assert chosen[1] == published and chosen[2] == published | {"window_size": 7}
    assert "`published`" in _help("lookahead") and "published" not in _help("union")
    with pytest.raises(InvalidInput, match="lane 2, union: union has no published settings"):
        tasks(("union", "published"))
    with pytest.raises(InvalidInput, match="text_phrases is not a setting here"):
        tasks(("lookahead", "text_phrases=true"))
