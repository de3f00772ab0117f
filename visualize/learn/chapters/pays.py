"""When guessing pays: the yield of a step against its cost, on this machine and on others."""

from __future__ import annotations

from typing import Any

from ouroboros_core.trace import metrics
from visualize.gallery import runs as gallery
from visualize.learn.numbers import (
    CARD_COST,
    GRID,
    WIDE,
    card_facts,
    cost_facts,
    pass_facts,
    widest_window,
)
from visualize.learn.pictures import lengths_figure, plain_of, race_figure
from visualize.learn.stops import PACE, Chapter, Stop, final, make_chapter

AUTO = "palindrome-speculative-auto"
ROW = 0.03
"""The cost of a row that the slider is set to, in target passes."""
CHEAP_COST, DEAR_ROW = 0.15, 0.1
"""Assumed costs of a draft pass, and of a row, on a processor with little arithmetic."""


def chapter() -> Chapter:
    name = "story-speculative-8"
    trace, auto = gallery.trace(name), gallery.trace(AUTO)
    facts: dict[str, Any] = gallery.facts(name) | pass_facts(name) | cost_facts(name)
    even = metrics.break_even(facts["depth"], facts["cost"])
    assert even is not None, "the words say which share of the guesses breaks even"
    shallow, deep = (metrics.expected_tokens(0.5, gamma) for gamma in (2, 8))
    window = widest_window(WIDE)
    facts |= {
        "even": even,
        "gamma": trace.hyperparameters["gamma"],
        "shallow": shallow,
        "deep": deep,
        "shallow_speedup": shallow / (2 * 0.2 + 1),
        "deep_speedup": deep / (8 * 0.2 + 1),
        "small_best": _best_speedup(0.6, 0.1),
        "large_best": _best_speedup(0.8, 0.5),
        "row": ROW,
        "wide_window": window,
        "wide_columns": gallery.trace(WIDE).hyperparameters["window_size"],
        "window_pass": 1 + ROW * window,
        "card_cost": CARD_COST,
        "cheap_cost": CHEAP_COST,
        "dear_row": DEAR_ROW,
    }
    facts |= card_facts() | _auto_facts()
    stops: list[Stop] = [
        {"at": final(trace), "spot": PACE},
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "figure": "theory", "sliders": {"alpha": 0.5, "gamma": 2, "row": 0}},
        {"at": final(trace), "figure": "theory", "curve": "speedup"},
        *[
            {
                "at": final(trace),
                "figure": "theory",
                "curve": "speedup",
                "sliders": {"alpha": alpha, "gamma": gamma, "cost": cost, "row": row},
            }
            for alpha, gamma, cost, row in (
                (0.5, 8, 0.2, 0),
                (0.7, 4, CHEAP_COST, ROW),
                (0.7, 4, CARD_COST, 0),
                (0.7, 4, CHEAP_COST, DEAR_ROW),
            )
        ],
        {"run": AUTO, "at": final(auto), "spot": PACE},
        {"at": final(trace), "figure": "lengths"},
    ]
    figures = {"lengths": lengths_figure(), "race": race_figure([plain_of(name), name])}
    return make_chapter(__name__, name, stops, facts, figures=figures)


def _best_speedup(alpha: float, cost: float) -> float:
    """Return the largest speedup by theory, over all draft lengths, if rows cost nothing."""
    return max(metrics.expected_tokens(alpha, gamma) / (gamma * cost + 1) for gamma in range(33))


def _auto_facts() -> dict[str, Any]:
    """Of a run that chooses its draft lengths: their mean and the speedup; of runs with fixed
    ones: the shortest and the longest, the least and the largest speedup."""
    gammas = [gallery.trace(name).hyperparameters["gamma"] for name in GRID]
    speedups = [gallery.facts(name)["speedup"] for name in GRID]
    auto = gallery.facts(AUTO)
    return {
        "auto_depth": auto["depth"],
        "auto_speedup": auto["speedup"],
        "least": min(gammas),
        "most": max(gammas),
        "worst": min(speedups),
        "best": max(speedups),
    }
