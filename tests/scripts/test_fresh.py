"""What a newcomer gets: an environment with the wheel and nothing else serves the page. By
`tests/test_readme.py` the requirements name the same packages; `make fresh` serves them alone."""

import os
import sys
from pathlib import Path

import pytest

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


def test_an_interpreter_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fresh", "python-that-nobody-has"])
    message = "no python-that-nobody-has runs here: name the interpreters to try"
    with pytest.raises(SystemExit, match=message):
        fresh.main()
