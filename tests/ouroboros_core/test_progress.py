"""Bars in the terminal and in a notebook, and what is shown while the embedded model is made."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import transformers

from ouroboros_core import progress
from ouroboros_core.loading import embedded
from tests import ROOT


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook is given to show: a kernel that keeps it stands in for Jupyter."""
    found: list[Any] = []

    def display(bar: Any, display_id: bool) -> Any:
        assert display_id
        found.append(bar)
        return SimpleNamespace(update=found.append)

    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=True))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return found


def test_in_a_notebook_the_bar_is_html_and_goes_away(shown: list[Any]) -> None:
    with progress.progress_bar("comparing", 2) as tell:
        tell(1, "<union>")
        tell(2, "done")
    first, second, last = (bar._repr_html_() for bar in shown)
    assert 'max="2" value="0"' in first and "comparing: 0 of 2" in first
    assert "comparing: 1 of 2, &lt;union&gt;" in second
    assert last == ""


def test_in_a_terminal_the_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_bar("comparing", 1) as tell:
        tell(0, "[union]")
        tell(1, "done")
    told = capsys.readouterr()
    assert told.out == ""


def test_the_embedded_models_first_use_shows_a_bar_in_a_notebook_too(
    shown: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion itself is left out: it is another test's."""
    made = SimpleNamespace(save_pretrained=lambda folder: None)
    for kind in (transformers.AutoTokenizer, transformers.AutoModelForCausalLM):
        monkeypatch.setattr(kind, "from_pretrained", lambda **_: made)
    embedded._convert(tmp_path / "weights.gguf", tmp_path)
    doing = [bar.doing for bar in shown]
    assert doing == ["getting ready", "tokenizer", "weights", "saving", "done"]
    assert (shown[0].task, shown[-1]._repr_html_()) == ("Converting SmolLM2-135M-Instruct", "")


def test_scripts_and_programs_print_what_the_encoding_of_the_output_lacks_as_escapes() -> None:
    """The oracle is Python's own `backslashreplace`; standard input in ASCII is read as UTF-8."""
    text = "☃ é 🙂"
    for begin in ("import scripts", "from ouroboros_core import cli; cli.main(['methods'])"):
        program = f"{begin}; print(input())"
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
            input=text.encode(),
            capture_output=True,
            check=True,
        )
        assert result.stdout.splitlines()[-1] == text.encode("ascii", "backslashreplace")
