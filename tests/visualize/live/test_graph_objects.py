"""Figures without plotly.py are those of plotly.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ouroboros_core.sweeps.grid import Axis
from ouroboros_core.trace.summary import Summary
from visualize.compare import figures as compare_figures
from visualize.compare import view as compare_view
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


def test_the_charts_of_a_comparison_are_those_that_plotly_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = compare_view.recorded()
    rows, (axis,), ideals = recorded.rows, recorded.plan.grid.axes, recorded.ideals
    other = Axis("window", ("1", "2"))
    cells = [replace(row, coordinates=(*row.coordinates, "2")) for row in rows]
    words = [replace(rows[0], coordinates=("fixed",)), replace(rows[1], coordinates=("ema",))]
    above = [replace(ideal, others=("1",)) for ideal in ideals]

    def both() -> Any:
        lines = compare_figures.trade_off(rows, [axis], ideals)
        grid = compare_figures.heatmap(cells, [axis, other], above)
        points = compare_figures.trade_off(words, [Axis("stop", ("fixed", "ema"))])
        return json.loads(json.dumps([lines, grid, points], default=list))

    expected = both()
    for module in (compare_figures, plots):
        monkeypatch.setattr(module, "go", graph_objects)
    assert both() == expected
