"""What a newcomer gets: an environment with the wheel and nothing else serves the page. The
requirements name the same packages; alone they are installed and served by `make fresh`."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import fresh
from tests import ROOT
from tests.scripts.test_wheel import build

pytestmark = pytest.mark.slow


@pytest.mark.embedded
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "CI" not in os.environ,
    reason="installs PyTorch once more, for some gigabytes: make fresh does that, and so does a "
    "machine where the variable CI is set",
)
def test_a_new_environment_with_the_wheel_alone_serves_the_page(tmp_path: Path) -> None:
    """Out of an empty folder."""
    base = getattr(sys, "_base_executable", sys.executable)
    (empty := tmp_path / "empty").mkdir()
    _, wheel = build(ROOT, tmp_path / "dist")
    python = fresh.install(base, tmp_path / "venv", wheel)
    assert "torch" in fresh.versions(python)
    fresh.serve(python, fresh.PACKAGE, empty)
    assert list(empty.iterdir()) == []


def test_the_wheel_asks_for_what_the_requirements_name_and_their_versions_fit() -> None:
    """So that one environment can stand for both."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {(one := Requirement(text)).name: one.specifier for text in project["dependencies"]}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = [Requirement(line) for line in lines if not line.startswith("#")]
    assert {one.name for one in named} == set(ranges)
    for one in named:
        for clause in one.specifier:
            assert ranges[one.name].contains(clause.version), one


def test_an_interpreter_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fresh", "python-that-nobody-has"])
    with pytest.raises(
        SystemExit, match="no python-that-nobody-has runs here: name the interpreters to try"
    ):
        fresh.main()
