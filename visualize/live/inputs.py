"""Inputs of the live page: methods, settings, examples and the first run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ouroboros_core import methods
from visualize.compare import components
from visualize.compare import view as compare_view
from visualize.gallery import runs as gallery
from visualize.kit import plots
from visualize.kit.markup import template
from visualize.kit.plot_view import plot_markup
from visualize.live.packing import runs_in_browser
from visualize.live.session import MOST_TOKENS
from visualize.run.figures import MORE_CHARTS
from visualize.watch.examples import EXAMPLES
from visualize.watch.families import families
from visualize.watch.inputs import CARDS
from visualize.watch.settings_view import declaration, merged, run_settings

FIRST = {"prompt": gallery.trace("java-union").prompt.text, "method": methods.DEFAULT}
"""The recorded run that plays until the model is there."""
ONLY_HERE = ("record", "warm", "generation_config")
"""Settings that only a server has."""


def page_markup() -> str:
    """Return the HTML of the page."""
    charts = "".join(
        f'<div id="chart-{chart.id}">{plot_markup(chart.title, 280).template}</div>'
        for chart in MORE_CHARTS
    )
    return template("live/live_view", charts=charts)


def page_facts(packed: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of live_view.js; `packed` is the answer of `packing.pack`."""
    kinds = [kind for kind in methods.available().values() if runs_in_browser(kind)]
    names = {kind.id for kind in kinds}
    run = [setting for setting in run_settings(MOST_TOKENS) if setting["name"] not in ONLY_HERE]
    for setting in run:
        if setting["name"] == "acceptance":
            setting["choices"] = ["match"]
    recorded = gallery.methods_by_prompt()
    return {
        **packed,
        "first": FIRST,
        "settings": {"method": methods.DEFAULT, "of": {}, "run": {}},
        "declared": {"methods": [declaration(kind) for kind in kinds], "run": run},
        "methods": {
            "cards": list(CARDS),
            "families": [
                family | {"methods": [m for m in family["methods"] if m["id"] in names]}
                for family in families()
            ],
            "recorded": recorded,
        },
        "lacking": {},
        "examples": {"examples": [_chip(example) for example in EXAMPLES]},
        "recorded": {
            prompt: {method: gallery.of_prompt(prompt, method) for method in of}
            for prompt, of in recorded.items()
        },
        "charts": [
            {"id": chart.id, "label": chart.label, "axis": chart.axis} for chart in MORE_CHARTS
        ],
        "compare": {
            **components.facts(MOST_TOKENS, kinds),
            "first": compare_view.recorded_view(),
            "opens": compare_view.recorded_names(),
            "file": compare_view.table(compare_view.recorded()),
        },
        "later": plots.empty("Measured when the run has ended."),
    }


def _chip(example: Any) -> dict[str, Any]:
    settings = None
    if example.method:
        settings = merged(methods.get(example.method), example.settings, {})
    return asdict(example) | {"settings": settings}
