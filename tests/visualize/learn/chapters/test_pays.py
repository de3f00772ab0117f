"""When guessing pays, by the files of its runs."""

from typing import Any

import pytest

from tests.visualize.learn.recorded import GRID, chapter_of, parts, passes, raw, says, whole


def test_every_number_is_that_of_the_run_which_is_shown() -> None:
    chapter = chapter_of("pays")
    name = chapter["run"]
    facts, measured = whole(name) | parts(name), passes(name)
    wide, sliders = raw("bank-lookahead"), [stop.get("sliders") for stop in chapter["stops"]]
    one_row = (measured["pass_cost"] - 1) / (measured["rows"] - 1)
    row, card, dear = sliders[5]["row"], sliders[6], sliders[7]
    assert row == pytest.approx(one_row, abs=0.005), "the r of this run, as the words say"
    assert card["row"] == 0, "rows are free, as the words say"
    window = max(len(step["window"]) for step in wide["steps"])
    facts |= {"row": row, "wide_window": window, "window_pass": 1 + window * row}
    facts |= {"wide_columns": wide["hyperparameters"]["window_size"]}
    facts |= {"card_cost": card["cost"], "dear_row": dear["row"], "cheap_cost": dear["cost"]}
    facts |= {"gamma": raw(name)["hyperparameters"]["gamma"]}
    facts |= {"card": "H100", "card_rows": 989.5 / 3.35}  # its data sheet: TFLOPS, and TB/s
    says(chapter, facts | measured | _yields(facts) | _auto())


def _yields(facts: dict[str, Any]) -> dict[str, Any]:
    """The share at which 1 + a + ... + a^gamma reaches the cost of a step, found by trying; and a
    friend's arithmetic."""
    tried = [n / 100_000 for n in range(100_001)]
    gamma = facts["depth"]
    even = next(a for a in tried if a < 1 and (1 - a ** (gamma + 1)) / (1 - a) >= facts["cost"])
    shallow = sum(0.5**n for n in range(3))
    deep = sum(0.5**n for n in range(9))
    return {
        "even": even,
        "shallow": shallow,
        "deep": deep,
        "shallow_speedup": shallow / 1.4,
        "deep_speedup": deep / 2.6,
        "small_best": _best(0.6, 0.1),
        "large_best": _best(0.8, 0.5),
    }


def _best(alpha: float, cost: float) -> float:
    """The largest of the first twenty speedups, each summed guess by guess."""
    return max(sum(alpha**n for n in range(g + 1)) / (1 + g * cost) for g in range(20))


def _auto() -> dict[str, Any]:
    speedups = [whole(name)["speedup"] for name in GRID.values()]
    auto = whole("palindrome-speculative-auto")
    assert min(speedups) < auto["speedup"] < max(speedups), "as the words say"
    return {
        "auto_depth": auto["depth"],
        "auto_speedup": auto["speedup"],
        "least": min(GRID),
        "most": max(GRID),
        "worst": min(speedups),
        "best": max(speedups),
    }
