"""Reading the page: the text keeps its lines, a card stands beside its token, the controls keep their places, in any colours.

On the page, in a replay that stands alone and in the static lessons, in windows of a desk and of a phone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.decoding.trace import Trace
from tests.visitor import browser, open_tab, url, watch
from visualize import gallery, standalone

__all__ = ["browser", "url"]  # fixtures

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

DESK, PHONE = (1440, 900), (390, 844)
BREAKS = ["\n", "\t", "\r\n", "\u2028"]
"""What the rejected tokens of a run are made to be, by their number in the tree, and how each is drawn."""
SIGNS = ["↵", "⇥", "↵", "↵"]


@pytest.fixture(scope="module")
def broken() -> Trace:
    """A recorded run in which every rejected token is made of line breaks and tabs; what was kept is untouched."""
    data = json.loads(gallery.trace("heap-speculative").to_json())
    for step in data["steps"]:
        for node in range(1, len(step["tree"]["tokens"])):
            if node not in step["path"]:
                data["pieces"][str(step["tree"]["tokens"][node])] = BREAKS[node - 1]
    return Trace.from_json(json.dumps(data))


@pytest.fixture(scope="module")
def replay(broken: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a saved replay."""
    file = tmp_path_factory.mktemp("replay") / "replay.html"
    file.write_text(standalone.replay_html(broken, gallery.baseline("heap-speculative")))
    return file.as_uri()


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    """A visitor in whose page no script fails."""
    context = browser.new_context(viewport=dict(zip(("width", "height"), DESK, strict=True)), reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor = context.new_page()
    faults, _ = watch(visitor)
    yield visitor
    assert not faults, faults
    context.close()


def resize(page: Any, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})


def open_run(page: Any, url: str, trace: Trace, folder: Path) -> None:
    """The page, with a run from a file in its view."""
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    open_tab(page, "Traces")
    file = folder / "run.json"
    file.write_text(trace.to_json())
    page.locator("#open-view input").set_input_files(file)
    page.wait_for_function(
        "n => document.querySelectorAll('#token-view .ouro-token').length === n && document.querySelector('.ouro-rejected')",
        arg=len(trace.tokens),
    )
    page.locator("#token-view .ouro-text").wait_for()


LINES = """() => {
  const text = document.querySelector('.ouro-run .ouro-text'), high = parseFloat(getComputedStyle(text).lineHeight);
  const top = text.querySelector('.ouro-prompt').getBoundingClientRect().top;
  return [...text.querySelectorAll('.ouro-token')].map((node) => {
    const box = node.getClientRects()[0];
    return [node.textContent, Math.round((box.top - top) / high)];
  });
}"""


@pytest.mark.parametrize("place", ["page", "replay"])
def test_the_kept_text_has_its_own_lines_whatever_was_rejected(
    reader: Any, request: Any, broken: Trace, tmp_path: Path, place: str
) -> None:
    """The oracle is the final text: a token stands as many lines down as there are line breaks before it."""
    if place == "page":
        open_run(reader, request.getfixturevalue("url"), broken, tmp_path)
    else:
        reader.goto(request.getfixturevalue("replay"))
    before, wanted = broken.prompt.text, []
    for text in broken.texts:
        wanted.append([text, before.count("\n")])
        before += text
    rejected = reader.locator(".ouro-run .ouro-text .ouro-rejected")
    assert rejected.count() > 20
    assert reader.evaluate(LINES) == wanted
    drawn = rejected.evaluate_all("nodes => nodes.map((n) => [n.textContent, n.dataset.text])")
    assert {tuple(one) for one in drawn} == set(zip(SIGNS, BREAKS, strict=True))
    reader.evaluate("getSelection().selectAllChildren(document.querySelector('.ouro-run .ouro-text'))")
    reader.keyboard.press("Control+c")
    assert reader.evaluate("navigator.clipboard.readText()").rstrip("\n") == before.rstrip("\n"), "what is copied is the text"
    rejected.first.hover()
    assert reader.locator(".ouro-card .ouro-quote").first.inner_text() == rejected.first.text_content()
    reader.keyboard.press("Escape")
    reader.get_by_role("button", name="final text only").first.click()
    assert rejected.first.is_hidden()
    assert reader.evaluate(LINES) == wanted
