"""The page's texts lie in one file, and a page with another file says nothing of its own."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ouroboros_core import words
from tests import ROOT
from tests.browser import chromium, server
from visualize.palette import LOOKS

pytestmark = pytest.mark.slow

WORDS: dict[str, str] = json.loads(
    (ROOT / "assets" / "words" / "en.json").read_text(encoding="utf-8")
)
CODE = [
    ROOT / "app.py",
    *(
        path
        for package in ("ouroboros_core", "visualize")
        for path in sorted((ROOT / package).rglob("*.py"))
    ),
    *sorted((ROOT / "assets" / "js").glob("*.js")),
]
ASKING, MANY = {"say", "several", "text", "told"}, r"\.(one|many)"
BUILT = ("gallery.", "learn.", "questions.")
"""Keys that are put together where lessons and gallery are made."""
NO_PROSE = re.compile(r"learn\..*\.answer|questions\..*\.where|page\.language|static\.front")
ALLOWED = {"faults.py: out of memory", "faults.py: not enough memory"}
"""Prose outside the table of words: what torch says when there is no memory left."""


def test_a_language_may_be_a_file_and_what_it_lacks_is_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "xx.json"
    file.write_text(json.dumps({"page.stop": "Halt", "knob.gamma": "Länge"}))
    monkeypatch.setenv("OUROBOROS_LANGUAGE", str(file))
    words.table.cache_clear()
    try:
        assert words.say("page.stop") == "Halt"
        assert words.say("page.prompt") == "Prompt"
        assert words.known("knob.gamma", "gamma") == "Länge"
        assert words.known("knob.unheard", "unheard") == "unheard"
        assert [words.several("view.rows", n) for n in (1, 2)] == ["1 row", "2 rows"]
    finally:
        words.table.cache_clear()


def in_python(source: str) -> Iterator[str]:
    """Patterns of the keys that are asked for: whatever an f-string fills in may be anything."""
    for call in ast.walk(ast.parse(source)):
        if not (
            isinstance(call, ast.Call)
            and call.args
            and ast.unparse(call.func).split(".")[-1] in ASKING
        ):
            continue
        branches: list[ast.expr] = [call.args[0]]
        while branches:
            key = branches.pop()
            if isinstance(key, ast.IfExp):
                branches += [key.body, key.orelse]
                continue
            parts = (
                key.values
                if isinstance(key, ast.JoinedStr)
                else [key]
                if isinstance(key, ast.Constant)
                else []
            )
            pattern = "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
                for part in parts
            )
            if "." in pattern and not pattern.startswith(".+"):
                yield pattern + (MANY if ast.unparse(call.func) == "several" else "")


def in_script(source: str) -> Iterator[str]:
    """Likewise; a key may be a sum."""
    for name, asked in re.findall(r"\b(say|several)\(([^,()]*)", source):
        for key, more in re.findall(r'"(\w[\w.]*\.[\w.]*)"( \+)?', asked):
            yield re.escape(key) + (".+" if more else "") + (MANY if name == "several" else "")


def used() -> set[str]:
    found: set[str] = set()
    for path in CODE:
        found.update(
            (in_python if path.suffix == ".py" else in_script)(path.read_text(encoding="utf-8"))
        )
    return found


def test_every_key_is_there_and_every_key_is_used() -> None:
    asked = used()
    assert len(asked) > 200
    assert [one for one in asked if not any(re.fullmatch(one, key) for key in WORDS)] == []
    idle = [
        key
        for key in WORDS
        if not key.startswith(BUILT) and not any(re.fullmatch(one, key) for one in asked)
    ]
    assert idle == []


def test_a_factor_is_written_with_one_sign() -> None:
    """2.62×, and neither 2.62x nor 2.62 times."""
    assert [
        key for key, text in WORDS.items() if re.search(r"\{\w+:[^}]+\}( times|x)\b", text)
    ] == []


def prose(path: Path) -> Iterator[str]:
    """Texts of three words and more in a module, but for docstrings, markup and what is raised."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.Raise | ast.Assert):
            skipped.update(ast.walk(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            text = node.value
            if not re.search(r"ouro-|[<{]", text) and re.search(
                r"[A-Za-z]{2,}[,;:]? [A-Za-z]+[,;:]? [A-Za-z]{2,}", text
            ):
                yield text


def test_no_module_of_the_page_has_prose_of_its_own() -> None:
    names = (
        "views",
        "reasons",
        "numbers",
        "figures",
        "diff",
        "diff_figures",
        "sweep_figures",
        "record_figures",
        "palette",
    )
    files = [ROOT / "visualize" / f"{name}.py" for name in names]
    files += [
        path
        for room in ("tabs", "server", "components")
        for path in sorted((ROOT / "visualize" / room).glob("*.py"))
    ]
    prompts = {"examples.py"}  # data: what a visitor may ask
    found = {
        f"{path.name}: {text}" for path in files if path.name not in prompts for text in prose(path)
    }
    assert found - ALLOWED == set()


GRADIO = re.compile(
    r"(number input|range slider) for .*|Reset to default value|More tabs|Use via API|Stop "
    r"Recording"
)
"""What Gradio says by itself."""
SEEN = """() => {
  const inside = '.ouro-run, .ouro-learn, .ouro-gallery, .ouro-sweep, .ouro-save, .ouro-open, figcaption, label span, button';
  const data = '.ouro-text, .ouro-tree svg, .ouro-card .ouro-quote, .ouro-title, .ouro-glyph, .ouro-lane-name, .modebar,'
    + ' .ouro-sweep-table, option, output, .ouro-odds th, .ouro-residual th';
  const found = new Set();
  const keep = (text, node) => /\\p{L}/u.test(text) && !text.includes('\\u27e6') && !node.closest(data) && found.add(text.trim());
  for (const root of document.querySelectorAll(inside)) {
    for (const node of [root, ...root.querySelectorAll('*')]) {
      for (const name of ['aria-label', 'title']) if (node.hasAttribute(name)) keep(node.getAttribute(name), node);
      if (['SCRIPT', 'STYLE'].includes(node.tagName)) continue;
      for (const child of node.childNodes) if (child.nodeType === 3) keep(child.data, node);
    }
  }
  return [...found];
}"""


def data() -> set[str]:
    """Texts that are no words of the page: of knobs, methods and sources, whose declarations say
    them, of models, and Gradio's own."""
    from ouroboros_core import methods
    from ouroboros_core.sampling import Sampling

    knobs = [
        knob for m in methods.available().values() for knob in m.Hyperparameters.knobs().values()
    ]
    knobs += Sampling.knobs().values()
    names = {
        text
        for knob in knobs
        for text in (knob.name, knob.name.replace("_", " "), knob.help, *(knob.choices or ()))
    }
    return names | {text for m in methods.available().values() for text in (m.id, m.name)}


@pytest.mark.browser
@pytest.mark.embedded
def test_a_translated_page_says_nothing_in_english(tmp_path: Path) -> None:
    """Every text wrapped in brackets: what has none is not in the table."""
    file = tmp_path / "brackets.json"

    def wrapped(text: str, cuts: str = "|") -> str:
        """Each part by itself, where the page takes a text apart."""
        return "".join(
            part if part in cuts else f"⟦{part}⟧"
            for part in re.split(f"([{re.escape(cuts)}])", text)
        )

    cuts = {
        key: "|"
        if key.endswith(".head")
        else "*\n"
        if key.startswith(("learn.", "questions."))
        else "\0"
        for key in WORDS
    }
    table = {
        key: wrapped(text, cuts[key]) for key, text in WORDS.items() if not NO_PROSE.fullmatch(key)
    }
    for key, look in LOOKS.items():  # declared with the sources; a translation may name them
        table |= {
            f"look.{key}": wrapped(look.label),
            f"look.{key}.sentence": wrapped(look.sentence),
        }
        table[f"look.{key}.who"] = wrapped(look.who)
    file.write_text(json.dumps(table), encoding="utf-8")
    with (
        server("--dtype", "float32", environment={"OUROBOROS_LANGUAGE": str(file)}) as url,
        chromium() as browser,
    ):
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("#token-view .ouro-token")
        page.wait_for_selector("#chart-speedup .js-line", state="attached")
        seen: set[str] = set()
        for tab in ("generate", "race", "sweep", "learn", "traces", "drafts"):
            page.get_by_role("tab", name=wrapped(WORDS[f"tab.{tab}"])).click()
            page.wait_for_timeout(700)
            if tab == "traces":
                page.click("#compare")
                page.wait_for_selector("#diff-view .ouro-diff-table td")
            seen |= set(page.evaluate(SEEN))
            assert page.inner_text("main, body").count("⟦") > 10, tab
        for part in (
            ".ouro-tile dt",
            ".ouro-legend",
            ".ouro-tree-note",
            ".ouro-count",
            ".ouro-section h2",
        ):
            assert "⟦" in page.locator(f"#token-view {part}").first.text_content()
        assert page.locator("#token-view .ouro-step-button").first.get_attribute(
            "title"
        ) == wrapped(WORDS["view.first"])
    assert {text for text in seen - data() if not GRADIO.fullmatch(text)} == set()
