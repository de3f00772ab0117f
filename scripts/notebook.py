"""Runs the notebook of the documentation and writes it as one page: python -m scripts.notebook

build/notebook.html opens from disk with the network off; build/notebook.ipynb is the notebook with
its outputs. The models are the embedded pair, and nothing is fetched.
"""

from __future__ import annotations

import html
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import markdown
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from ouroboros_core.locations import assets
from visualize.kit.markup import PLOTLY_JS

ROOT = assets().parent
NOTEBOOK = ROOT / "docs" / "notebooks" / "speculative_decoding.ipynb"
CELL_SECONDS = 600
FIGURE = "application/vnd.plotly.v1+json"
STYLE = """
:root { color-scheme: light; }
body { background: #fff; color: #111; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.6 system-ui, sans-serif; }
pre { overflow-x: auto; padding: .8em 1em; border-radius: 6px; font-size: 14px; line-height: 1.5;
  background: color-mix(in srgb, currentColor 6%, transparent); }
.out { margin: 0 0 1.5em; overflow-x: auto; }
"""
DRAW = """
for (const node of document.querySelectorAll("[data-figure]")) {
  const { data, layout } = JSON.parse(node.dataset.figure);
  const ink = getComputedStyle(document.body).color, clear = "rgba(0,0,0,0)";
  const own = { paper_bgcolor: clear, plot_bgcolor: clear, font: { color: ink }, height: 380 };
  Plotly.newPlot(node, data, { ...layout, ...own }, { displaylogo: false, responsive: true });
}
"""


def execute(notebook: Any, seconds: int = CELL_SECONDS) -> Any:
    """The notebook with its outputs; raises CellExecutionError for a cell that fails."""
    where = {"metadata": {"path": str(ROOT)}}
    return NotebookClient(notebook, timeout=seconds, resources=where).execute()


def page(notebook: Any) -> str:
    """A notebook with its outputs as one HTML page that fetches nothing."""
    body = "\n".join(part for cell in notebook.cells for part in _cell(cell))
    library = PLOTLY_JS.read_text("utf-8") if "data-figure" in body else ""
    title = html.escape(NOTEBOOK.stem.replace("_", " "))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>\n{body}\n"
        f"<script>{library}</script><script>{DRAW if library else ''}</script></body></html>\n"
    )


def _cell(cell: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield markdown.markdown(cell.source, extensions=["tables"])
        return
    yield highlight(cell.source, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True))
    for output in cell.outputs:
        shown = _output(output)
        if shown:
            yield f'<div class="out">{shown}</div>'


def _output(output: Any) -> str:
    """Return the output of a cell: a figure, HTML of the project's own, or text."""
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>" if output.name == "stdout" else ""
    data = output.get("data", {})
    if FIGURE in data:
        return f'<div data-figure="{html.escape(json.dumps(data[FIGURE]))}"></div>'
    if "text/html" in data:
        shown = str(data["text/html"])
        return "" if "<script" in shown else shown  # that is Plotly getting ready
    return f"<pre>{html.escape(data.get('text/plain', ''))}</pre>"


def main() -> None:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    began = time.perf_counter()
    try:
        notebook = execute(nbformat.read(NOTEBOOK, as_version=4))
    except CellExecutionError as error:
        sys.exit(f"error: a cell of {NOTEBOOK.name} failed\n{error}")
    nbformat.write(notebook, folder / "notebook.ipynb")
    (folder / "notebook.html").write_text(page(notebook), encoding="utf-8")
    print(f"{folder / 'notebook.html'}, executed in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
