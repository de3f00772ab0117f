"""Measurements by name."""

import sys

import pytest

from scripts.measure.__main__ import NAMES, main


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_is_found_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", name, "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0


def test_an_unknown_name_gets_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", "all"])
    with pytest.raises(SystemExit, match=r"(?s)steps .*passes .*browser"):
        main()
