"""What a newcomer gets: an environment with the requirements and nothing else serves the page.
Other Pythons: make fresh."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts import fresh

pytestmark = pytest.mark.slow


@pytest.mark.embedded
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "CI" not in os.environ,
    reason="installs PyTorch once more, for some gigabytes: make fresh does that, and so does a "
    "machine where the variable CI is set",
)
def test_a_new_environment_from_the_requirements_alone_serves_the_page(tmp_path: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    python = fresh.install(base, tmp_path / "venv")
    assert "torch" in fresh.versions(python)
    fresh.serve(python)


def test_an_interpreter_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fresh", "python-that-nobody-has"])
    with pytest.raises(
        SystemExit, match="no python-that-nobody-has runs here: name the interpreters to try"
    ):
        fresh.main()
