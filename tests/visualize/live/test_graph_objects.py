"""Figures without plotly.py are those of plotly.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ouroboros_core.trace.summary import Summary
from visualize.gallery import runs
from visualize.kit import plots
from visualize.live import graph_objects
from visualize.run import figures

RUNS = ("java-autoregressive", "java-speculative", "java-union", "java-ouroboros")


def drawn(name: str, compared: bool) -> dict[str, Any]:
    """Return all charts of a recorded run as JSON."""
    trace = runs.trace(name)
    baseline, rounds = (runs.baseline(name), runs.speedup(name)) if compared else (None, None)
    summary = Summary(trace, baseline, rounds=rounds)
    charts = {chart.id: chart.draw(summary) for chart in figures.MORE_CHARTS}
    charts |= {f"first {name}": figure for name, figure in figures.first_charts(summary).items()}
    text = json.dumps(charts | {"begun": figures.begun_charts()}, default=list)
    return dict(json.loads(text))


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("name", RUNS)
def test_every_chart_of_a_run_is_the_one_that_plotly_makes(
    name: str, compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = drawn(name, compared)
    for module in (figures, plots):
        monkeypatch.setattr(module, "go", graph_objects)
    assert drawn(name, compared) == expected
