"""How IPython shows a run, a tree, a comparison and a sweep: HTML in a notebook, and text.

The classes themselves know no picture. `import ouroboros_core` calls `register` in a notebook, and
what draws is imported when something is drawn.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

DRAWN_BY = {
    ("trace.trace", "Trace"): ("runs", "trace"),
    ("trace.trace", "StepTree"): ("runs", "tree"),
    ("benchmark.comparison", "Comparison"): ("tables", "comparison"),
    ("sweeps.call", "SweepResult"): ("tables", "sweep"),
}
"""Module and class -> the module with the functions `NAME_html` and `NAME_text`."""


def register_in_ipython() -> None:
    """Register with the running IPython, if there is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        register(shell.display_formatter)


def register(display: Any) -> None:
    """Register with an IPython `DisplayFormatter`, by the names of the classes."""
    html, text = (display.formatters[kind] for kind in ("text/html", "text/plain"))
    for (module, kind), (drawing, name) in DRAWN_BY.items():
        home = f"ouroboros_core.{module}"
        html.for_type_by_name(home, kind, _drawing(drawing, f"{name}_html"))
        text.for_type_by_name(home, kind, _printing(drawing, f"{name}_text"))


def _drawing(module: str, function: str) -> Callable[[Any], str]:
    """Return the function, imported at its first call."""

    def draw(result: Any) -> str:
        home = importlib.import_module(f"ouroboros_core.notebook.{module}")
        return str(getattr(home, function)(result))

    return draw


def _printing(module: str, function: str) -> Callable[[Any, Any, bool], None]:
    """Return the function as one that writes to IPython's pretty printer."""
    draw = _drawing(module, function)

    def write(result: Any, printer: Any, cycle: bool) -> None:
        printer.text(draw(result))

    return write
