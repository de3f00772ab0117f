"""Measurements by name."""

import sys
from typing import Any

import pytest

from scripts.measure.__main__ import NAMES, main
from scripts.measure.page import waits
from tests.endless_runs import LONG_COMPARISON


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_is_found_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", name, "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0


def test_an_unknown_name_gets_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", "all"])
    with pytest.raises(SystemExit, match=r"(?s)passes .*page .*lossless_modes"):
        main()


@pytest.mark.browser
@pytest.mark.embedded
@pytest.mark.slow
def test_a_visitor_waits_beside_the_timing_and_the_comparison_of_another(
    browser: Any, url: str
) -> None:
    """Each time is one of a run or of a move; how long it is depends on the machine."""
    waited = waits(browser, url, LONG_COMPARISON, repeats=1, moves=2)
    assert [len(seconds) for seconds in waited.values()] == [1, 1, 1, 2]
    assert all(0 < value < 300 for seconds in waited.values() for value in seconds)
