"""Long prose is in one file that a translation replaces; labels are in the code that shows them."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ouroboros_core import messages
from tests import ROOT
from tests.browser import chromium, server
from tests.folders import chatting_pair
from tests.visitor import open_tab

pytestmark = pytest.mark.slow

WORDS: dict[str, str] = json.loads((ROOT / "assets/words/en.json").read_text(encoding="utf-8"))
PACKAGES = ("ouroboros_core", "visualize")
PYTHON = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
PYTHON.append(ROOT / "app.py")
PAGE = [path for path in PYTHON if path.is_relative_to(ROOT / "visualize")]
SCRIPTS = sorted((ROOT / "visualize").glob("*/*.js"))
BUILT = ("gallery.", "learn.", "questions.")
"""Keys that are put together where lessons and gallery are made."""
NO_PROSE = re.compile(r"learn\..*\.answer|questions\..*\.where")
"""Which option is right, and which stop answers a question."""
SHORT = re.compile(r".*\.(title|option\d)")
"""Parts of the prose that need no sentence."""
LONGEST = 50
"""Words of a message in the code; what is longer is prose."""


def test_a_language_may_be_a_file_and_what_it_lacks_is_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "xx.json"
    file.write_text(json.dumps({"learn.guess.title": "Raten"}), encoding="utf-8")
    monkeypatch.setenv("OUROBOROS_LANGUAGE", str(file))
    messages.table.cache_clear()
    try:
        assert messages.say("learn.guess.title") == "Raten"
        assert messages.say("learn.warm.title") == "Warm start"
    finally:
        messages.table.cache_clear()


def test_a_range_of_numbers_is_never_an_empty_one() -> None:
    told = [messages.allowed(1, most, "absent") for most in (3, 2, 1, 0, -4)]
    assert told == ["between 1 and 3", "between 1 and 2", "1", "absent", "absent"]


def test_a_number_of_things_is_told_in_words() -> None:
    assert [messages.counted(n, "token") for n in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]


@pytest.mark.parametrize("text", ["كتاب", " ספר 25", "٢٥", "a ש b", "\u202eabc"])
def test_a_text_from_right_to_left_is_isolated_in_a_sentence(text: str) -> None:
    assert messages.isolated(text) == f"\u2068{text}\u2069"


@pytest.mark.parametrize("text", ["", "word", "25%", "漢字", "été", "(”’", "😀"])
def test_any_other_text_stands_in_a_sentence_as_it_is(text: str) -> None:
    assert messages.isolated(text) == text


def asked_in(source: str) -> Iterator[str]:
    """Patterns of the keys that a module asks for: what an f-string fills in may be anything."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] != "say":
            continue
        key = call.args[0]
        parts = key.values if isinstance(key, ast.JoinedStr) else [key]
        pattern = "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in parts
        )
        if "." in pattern and not pattern.startswith(".+"):
            yield pattern


def test_every_key_is_there_and_every_key_is_used() -> None:
    asked = {key for path in PYTHON for key in asked_in(path.read_text(encoding="utf-8"))}
    assert len(asked) > 10
    assert [one for one in asked if not any(re.fullmatch(one, key) for key in WORDS)] == []
    used = {key for key in WORDS if any(re.fullmatch(one, key) for one in asked)}
    assert [key for key in WORDS.keys() - used if not key.startswith(BUILT)] == []


def test_the_file_of_prose_holds_sentences_and_no_labels() -> None:
    short = {key for key in WORDS if SHORT.fullmatch(key)}
    prose = {key for key in WORDS.keys() - short if not NO_PROSE.fullmatch(key)}
    assert len(prose) > 60
    sentences = {key for key in prose if re.search(r"[.?!]\W*$", WORDS[key])}
    assert {key for key in prose if len(WORDS[key].split()) < 4} == prose - sentences == set()
    titled = {key.rpartition(".")[0] for key in short}
    assert [name for name in titled if not any(key.startswith(name) for key in prose)] == []


def texts_in(path: Path) -> Iterator[str]:
    """What a module of Python may say: its texts, but for docstrings and markup."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                filled_in(part) if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
                for part in node.values
            )


def filled_in(part: ast.FormattedValue) -> str:
    """`{}`, with the format that is asked for."""
    spec = ast.unparse(part.format_spec)[2:-1] if part.format_spec else ""
    return f"{{:{spec}}}" if spec else "{}"


def shown_by(path: Path) -> Iterator[str]:
    if path.suffix == ".py":
        yield from texts_in(path)
    else:
        source = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`', source):
            yield text[1:-1]


def test_what_the_code_says_is_short() -> None:
    data = {"examples.py", "space.py", "hub.py"}  # prompts, front pages of a Space and a repository
    files = [path for path in [*PAGE, *SCRIPTS] if path.name not in data]
    texts = [(path.name, text) for path in files for text in shown_by(path)]
    said = [one for one in texts if not re.search(r"<\w|=>", one[1])]  # markup, scripts
    assert len(said) > 1000
    assert [(name, text) for name, text in said if len(text.split()) > LONGEST] == []


def test_a_factor_is_written_with_one_sign() -> None:
    """2.62×, and neither 2.62x nor 2.62 times."""
    told = [*WORDS.values(), *(text for path in [*PAGE, *SCRIPTS] for text in shown_by(path))]
    assert [text for text in told if re.search(r"\{\w*:[^}]+f\}( times|x)\b", text)] == []


SHOWING = [
    f".ouro-learn-{part}" for part in ("title", "chapter", "words p", "ten summary", "ten p")
]
SHOWING += [f".ouro-gallery-entry {part}" for part in ("h2", "p:not(.ouro-small)")]
SHOWING += ["#drafts"]


@pytest.mark.browser
def test_the_prose_of_a_translated_page_is_all_translated(tmp_path: Path) -> None:
    """Every text in brackets: a letter outside of them does not come from the file."""
    file = tmp_path / "brackets.json"

    def wrapped(text: str, cuts: str) -> str:
        """Each part by itself, where the page takes a text apart."""
        return "".join(
            part if part in cuts else f"⟦{part}⟧"
            for part in re.split(f"([{re.escape(cuts)}])", text)
        )

    table = {
        key: wrapped(text, "*\n" if key.startswith(("learn.", "questions.")) else "\0")
        for key, text in WORDS.items()
        if not NO_PROSE.fullmatch(key)
    }
    file.write_text(json.dumps(table), encoding="utf-8")
    with (
        server(*chatting_pair(tmp_path), environment={"OUROBOROS_LANGUAGE": str(file)}) as url,
        chromium() as browser,
    ):
        page = browser.new_page()
        page.goto(url)
        for tab in ("Recorded runs", "Drafts and models", "Learn"):
            open_tab(page, tab)
            page.get_by_text("⟦").locator("visible=true").first.wait_for()
            page.wait_for_timeout(700)
        for selector in SHOWING:
            page.locator(selector).first.wait_for(state="attached")
            texts = page.locator(selector).all_text_contents()
            assert texts, selector
            for text in texts:
                left = re.sub(r"⟦[^⟧]*⟧", "", text)
                assert not re.search(r"[^\W\d_]", left), (selector, text)
