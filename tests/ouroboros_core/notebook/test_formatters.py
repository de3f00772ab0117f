"""How IPython shows results: the oracle is IPython's own display formatter."""

import importlib
import sys
from typing import Any

from IPython.core.formatters import DisplayFormatter

from ouroboros_core.locations import assets
from ouroboros_core.notebook import runs
from ouroboros_core.notebook.formatters import DRAWN_BY, register
from tests.commands import finished
from tests.traces import typed_trace


def test_ipython_shows_a_run_and_a_tree_as_pictures_and_as_text() -> None:
    trace = typed_trace()
    display: Any = DisplayFormatter()
    assert "text/html" not in display.format(trace)[0]
    register(display)
    for result, page, text in (
        (trace, runs.trace_html(trace), runs.trace_text(trace)),
        (trace.tree(1), runs.tree_html(trace.tree(1)), runs.tree_text(trace.tree(1))),
    ):
        assert display.format(result)[0] == {"text/html": page, "text/plain": text}


def test_every_registered_class_and_every_function_that_draws_one_exists() -> None:
    for (module, kind), (drawing, name) in DRAWN_BY.items():
        home = importlib.import_module(f"ouroboros_core.{module}")
        assert getattr(home, kind).__module__ == home.__name__, "IPython asks for this name"
        draws = importlib.import_module(f"ouroboros_core.notebook.{drawing}")
        assert callable(getattr(draws, f"{name}_html")) and callable(getattr(draws, f"{name}_text"))


def test_the_import_alone_registers_in_a_notebook_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "before = set(sys.modules)\n"
        "import ouroboros_core\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic'} - before\n"
        "print(*heavy & set(sys.modules))\n"
        "run = ouroboros_core.read_trace(open(sys.argv[1], 'rb').read())\n"
        "print(*shell.display_formatter.format(run)[0])\n"
    )
    result = finished(
        [sys.executable, "-c", code, str(assets() / "traces" / "river-sam.json")], check=True
    ).stdout
    assert result.splitlines() == ["", "text/plain text/html"]
