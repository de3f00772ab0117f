"""What the browser keeps for a page that is left: on a page from disk, without a server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.visitor import faultless
from visualize.kit.address import ADDRESS
from visualize.kit.modules import carried

pytestmark = pytest.mark.browser

FORBIDDEN = """for (const name of ["sessionStorage", "localStorage"])
  Object.defineProperty(window, name, {
    get() { throw new DOMException("The operation is insecure.", "SecurityError"); },
  });"""
LEAVE = 'dispatchEvent(new PageTransitionEvent("pagehide"))'
ASK = 'storage.restored({ key: "run", inputs: 2, charts: 1, blank: {} })'


@pytest.fixture
def address(tmp_path: Path) -> str:
    """The address of a page with the header's script, whose inputs were changed once."""
    props = {"store": "run", "tabs": ["watch"], "pages": {}, "first": {}, "moved": {}}
    file = tmp_path / "page.html"
    file.write_text(
        f"<!doctype html><meta charset=utf-8><div id=view>{ADDRESS.template}</div><script>"
        f"var storage, texts, page, ready = Promise.all([{carried('kit/page_storage.js')},"
        f"{carried('kit/shown_tokens.js')}, {carried('kit/address.js')}]).then((modules) => {{"
        "[storage, texts, page] = modules;"
        f"page.mount(document.getElementById('view'), {json.dumps(props)}, () => {{}}, () => {{}});"
        "});"
        'document.addEventListener("ouro:leave", ({ detail }) => { detail.view = { run: "r" }; });'
        "</script>",
        encoding="utf-8",
    )
    return file.as_uri()


def run(page: Any, code: str) -> Any:
    """Evaluate an expression once the modules are there."""
    return page.evaluate(f"ready.then(() => {code})")


@pytest.fixture
def visitor(browser: Any) -> Iterator[Any]:
    with faultless(browser) as page:
        yield page


@pytest.mark.parametrize(
    ("way", "comes_back"), [("reload", True), ("back", True), ("anew", False), ("link", False)]
)
def test_a_prompt_and_a_run_come_back_after_a_reload_and_on_the_way_back_alone(
    visitor: Any, address: str, way: str, comes_back: bool
) -> None:
    visitor.goto(f"{address}?prompt=one")
    run(visitor, 'page.changed(["שלום 25", 7])')
    if way == "reload":
        visitor.reload()
    elif way == "back":
        visitor.goto("about:blank")
        visitor.go_back()
    elif way == "anew":
        visitor.goto("about:blank")
        visitor.goto(f"{address}?prompt=one")
    else:  # another link was followed meanwhile, and left
        visitor.goto(f"{address}?prompt=two")
        run(visitor, "0")  # it stores its inputs only after its scripts have run
        visitor.go_back()
    if comes_back:  # a busy browser hands storage over a moment later
        visitor.wait_for_function(f"ready.then(() => {ASK}[0] !== undefined)")
    there = ["שלום 25", 7, '{"run":"r"}', "{}", None]
    found = run(visitor, f"{ASK}.map((one) => one === undefined ? 'absent' : one)")
    assert found == (there if comes_back else ["absent"] * 5)


def test_a_page_that_comes_back_whole_is_loaded_anew(visitor: Any, address: str) -> None:
    """Browsers put a page aside and cut its line to the server; then the way back shows it as it
    was."""
    visitor.goto(address)
    run(visitor, 'page.changed(["a prompt", 7])')
    with visitor.expect_navigation():
        run(visitor, 'dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))')
    assert visitor.evaluate("performance.getEntriesByType('navigation')[0].type") == "reload"
    assert run(visitor, ASK)[:2] == ["a prompt", 7]


def test_a_browser_that_stores_nothing_loses_nothing_else(visitor: Any, address: str) -> None:
    visitor.add_init_script(FORBIDDEN)
    visitor.goto(address)
    run(visitor, 'texts.markShown("a prompt", 5)')
    assert run(visitor, 'texts.shownTokens("a prompt")') == 5
    run(visitor, LEAVE)
    visitor.reload()
    assert run(visitor, f"{ASK}.every((one) => one === undefined)")
    visitor.goto("about:blank")
    visitor.go_back()
    assert run(visitor, f"{ASK}.every((one) => one === undefined)")


def test_what_is_too_large_to_be_stored_takes_nothing_older_back(
    visitor: Any, address: str
) -> None:
    visitor.goto(address)
    run(visitor, f'(page.changed(["before", 1]), {LEAVE})')
    assert run(visitor, 'storage.recall("run").inputs') == ["before", 1]
    run(visitor, f'(page.changed(["x".repeat(2e7), 2]), {LEAVE})')
    assert run(visitor, 'storage.recall("run")') is None


def test_every_field_for_a_text_follows_the_direction_of_what_is_written(
    visitor: Any, address: str
) -> None:
    """Gradio's fields, which say `ltr`; they come with the place they lie in."""
    visitor.goto(address)
    run(visitor, "0")
    visitor.evaluate("""document.querySelector("#view").insertAdjacentHTML("beforeend",
      "<textarea dir=ltr></textarea><input dir=ltr><select></select>")""")
    for field in visitor.locator("textarea, input").all():
        for text, wanted in (("ثمن 25 كتاباً", "rtl"), ("25 books", "ltr"), ("25 ספרים", "rtl")):
            field.fill(text)
            assert field.evaluate("n => [getComputedStyle(n).direction, n.translate]") == [
                wanted,
                False,
            ]
