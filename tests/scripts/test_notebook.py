"""The notebook for teaching: it is stored without outputs, runs to its end without a network, and
becomes a page that fetches nothing."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from scripts import notebook
from tests import ROOT
from tests.commands import missing_targets
from visualize.learn import lessons

GUARD = "import sys; from tests.loopback import watch; sys.addaudithook(watch)"


def read() -> Any:
    return nbformat.read(notebook.NOTEBOOK, as_version=4)


def test_the_notebook_is_stored_without_outputs_and_names_only_what_there_is() -> None:
    stored = read()
    nbformat.validate(stored)
    codes = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in codes)
    assert len(codes) >= 10
    text = "".join(cell.source for cell in stored.cells)
    for path in re.findall(r"`((?:docs|scripts)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    assert missing_targets(re.findall(r"`make (\w+)`", text)) == []


def test_the_sections_are_the_chapters_of_the_lessons() -> None:
    text = "\n".join(cell.source for cell in read().cells if cell.cell_type == "markdown")
    sections = re.findall(r"^## (\d+)\. (.+)$", text, re.MULTILINE)
    titles = [chapter["title"] for chapter in lessons.chapters()]
    assert sections == [(str(number), title) for number, title in enumerate(titles, 1)]


def test_a_page_shows_words_code_text_and_figures_and_nothing_of_them_is_a_script() -> None:
    new, figure = nbformat.v4.new_output, {"data": [], "layout": {"a": "</div>'\""}}
    outputs = [
        new("stream", text="</pre><script>1</script>"),
        new("stream", name="stderr", text="a warning"),
        new("display_data", {"text/html": "<p>shown</p>"}),
        new("display_data", {notebook.FIGURE: figure}),
    ]
    title = nbformat.v4.new_markdown_cell("# A title")
    code = nbformat.v4.new_code_cell("x = 1", outputs=outputs)
    stored = nbformat.v4.new_notebook(cells=[title, code])
    page = notebook.page(stored)
    body = page[page.index("<body>") : page.index("<script>")]
    assert "<h1>A title</h1>" in body and "<p>shown</p>" in body
    assert "&lt;/pre&gt;&lt;script&gt;1" in body and "a warning" not in body
    assert "&lt;/div&gt;" in body and "data-figure" in body
    assert not re.search(r"(?:src|href)=", page[: page.index("<script>")])


@pytest.mark.slow
@pytest.mark.embedded
def test_every_cell_runs_offline_and_the_page_has_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a kernel where any connection beyond this machine is an error; the cells compare texts
    themselves."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    stored = read()
    stored.cells.insert(0, nbformat.v4.new_code_cell(GUARD))
    done = notebook.execute(stored)
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    told = "".join(output.get("text", "") for output in outputs)
    assert "refused" not in told and "Warning" not in told
    assert "the same text as sampling alone? True" in told
    assert told.count("texts, all those of plain decoding") == 4
    page = notebook.page(done)
    assert page.count('class="ouro-nb ') == 7
    assert page.count("<div data-figure=") == 3
    assert "Measured best: gamma=" in page and "Run it again" in page
