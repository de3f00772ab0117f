"""Generate parts of README.md and docs/: tables of methods and settings, pictures of token trees,
commands, names, the trace's schema, measured tables.

A generated part is between `<!-- NAME: begin ... -->` and `<!-- NAME: end -->`. A method without a
page gets a first one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ouroboros_core.cli.methods import describe
from ouroboros_core.locations import assets
from ouroboros_core.notebook.tree_svg import parse, picture
from scripts.documents import measured, pages
from scripts.documents.command_line import commands
from scripts.documents.methods import facts_of, methods_table, settings_of
from scripts.documents.trace_format import schema, schema_tables
from scripts.documents.what_if import machines_table, models_table, predicted, predictions

ROOT = assets().parent
COMMAND = "python -m scripts.documents"
STUB = """\
# {name}

{summary}

<!-- facts: begin ({command}) -->
<!-- facts: end -->

## Settings

<!-- settings: begin ({command}) -->
<!-- settings: end -->
"""
"""The first page of a method."""


def _part(name: str) -> re.Pattern[str]:
    """Match a generated part with its markers, in Markdown or in YAML."""
    return re.compile(
        rf"(?P<begin>^[ ]*(?:<!--|#) {name}: begin[^\n]*\n)(?P<content>.*?)"
        rf"(?P<end>^[ ]*(?:<!--|#) {name}: end)",
        re.DOTALL | re.MULTILINE,
    )


def section(text: str, name: str) -> str:
    """Return the content of a generated part; raises ValueError if there is no such part."""
    match = _part(name).search(text)
    if not match:
        raise ValueError(f"there is no part <!-- {name}: begin --> ... <!-- {name}: end -->")
    return match["content"]


def filled(text: str, name: str, content: str) -> str:
    """Return the text with other content in a generated part."""
    section(text, name)
    return _part(name).sub(lambda match: match["begin"] + content + match["end"], text, count=1)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "opening": pages.opening,
        "compared": pages.compared,
        "methods": pages.method_count,
        "predicted": predicted,
        "result": measured.result,
    },
    "mkdocs.yml": {"methods": pages.nav},
    "docs/methods/index.md": {"methods": methods_table, "tasks": measured.tasks_section},
    "docs/models.md": {"predictions": predictions},
    "docs/losslessness.md": {"rules": pages.rules_table},
    "docs/page.md": {"legend": pages.legend, "charts": pages.charts},
    "docs/benchmarks.md": {
        "bench": measured.bench_section,
        "pairs": measured.pairs_section,
        "warm": measured.warm_section,
    },
    "docs/faq.md": {"sampled": measured.sampled_answer},
    "docs/limits.md": {"worst": measured.worst},
    "docs/methods/ouroboros.md": {"java": pages.java_runs},
    "docs/transformers.md": {"lossless": pages.lossless_modes},
    "docs/training.md": {"drafts": pages.drafts_section, "shapes": pages.shapes_table},
    "docs/command-line.md": {"commands": commands},
    "docs/python-api.md": {"names": pages.names},
    "docs/teaching.md": {"questions": pages.questions},
    "docs/trace-format.md": {"schema": schema_tables},
    "docs/what-if.md": {"machines": machines_table, "models": models_table},
}
"""File -> its generated parts, without the pages of the methods."""


def documents(root: Path = ROOT) -> dict[str, str]:
    """Return the right text of every file that has generated parts."""
    texts: dict[str, str] = {"docs/trace.schema.json": json.dumps(schema(), indent=1) + "\n"}
    for name, text in measured.csv_files(root / "assets").items():
        texts[f"assets/{name}"] = text
    for name, parts in PARTS.items():
        text = (root / name).read_text(encoding="utf-8")
        for part, make in parts.items():
            text = filled(text, part, make())
        texts[name] = text
    for method in describe():
        name = f"docs/methods/{method['id']}.md"
        page = root / name
        if name not in texts:
            first = STUB.format(**method, command=COMMAND)
            texts[name] = page.read_text(encoding="utf-8") if page.exists() else first
        texts |= _page(name, texts[name], method)
    return texts


def _page(name: str, text: str, method: dict[str, Any]) -> dict[str, str]:
    """Return a method's page, and the picture of the tree that its text has a notation of."""
    text = filled(text, "facts", facts_of(method))
    text = filled(text, "settings", settings_of(method))
    files = {name: text}
    tree = re.search(r"^<!-- tree: (.+?) -->$", text, re.MULTILINE)
    if tree:
        title = f"A proposal of {method['name']}"
        files[f"docs/methods/{method['id']}.svg"] = picture(parse(tree[1]), title)
    return files


def stale(root: Path = ROOT) -> dict[str, str]:
    """Return the right text of every file that has another one."""
    return {
        name: text
        for name, text in documents(root).items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    }
