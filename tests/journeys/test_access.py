"""The page for everyone: axe-core finds nothing on it that it does not find on a bare page of
Gradio, light and dark."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import server
from tests.visitor import ask, fade, generate, open_tab
from visualize.learn import lessons

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

BARE = """
import sys
import gradio as gr
with gr.Blocks() as page:
    with gr.Tab("one"):
        gr.Markdown("**text**")
        gr.Textbox("a", label="text")
        gr.Dropdown(["a", "b"], value="a", label="dropdown")
        gr.Slider(0, 4, value=2, label="slider", info="info")
        gr.Number(3, label="number")
        gr.Checkbox(True, label="checkbox", info="info")
        gr.Button("button", variant="primary")
        with gr.Accordion("accordion", open=True):
            gr.HTML("<p>html</p>")
    with gr.Tab("two"):
        gr.Textbox("b", label="text")
page.launch(server_port=int(sys.argv[sys.argv.index("--port") + 1]), quiet=True, footer_links=["api"])
"""
CHAPTERS = lessons.chapters()
PICTURES = {
    stop["figure"]: (number, at)
    for number, chapter in reversed(list(enumerate(CHAPTERS)))
    for at, stop in reversed(list(enumerate(chapter["stops"])))
    if "figure" in stop
}
"""The first stop with each picture: chapter and stop, from 0."""
OURS = (
    ".ouro-run, .ouro-figure, .ouro-header, .ouro-learn, .ouro-gallery, .ouro-save, .ouro-open, "
    ".ouro-compare, .ouro-methods, .ouro-details, .ouro-motto, .ouro-what-if, .ouro-proof, .ouro-draft-game"
)


MARK_SHOWN = """() => {
  for (const panel of document.querySelectorAll('[role="tabpanel"]'))
    panel.toggleAttribute('data-shown', panel.checkVisibility());
}"""
"""What stands around the places is looked at once, with the first of them."""


def findings(page: Any, inside: str = "") -> list[tuple[str, str, str]]:
    """(scheme, rule, element) of every violation on the page, or inside an element; in the dark
    only colours differ."""
    from axe_playwright_python.sync_playwright import Axe

    def run(**options: Any) -> Any:
        where = {"context": {"include": [[inside]]}} if inside else {}
        return Axe().run(page, **where, options=options).response["violations"]

    light = run(resultTypes=["violations"])
    page.evaluate("document.body.classList.add('dark')")
    fade(page)
    dark = run(runOnly={"type": "rule", "values": ["color-contrast"]}, resultTypes=["violations"])
    page.evaluate("document.body.classList.remove('dark')")
    fade(page)
    return [
        (scheme, found["id"], str(node["target"][0]))
        for scheme, violations in (("light", light), ("dark", dark))
        for found in violations
        for node in found["nodes"]
    ]


def open_page(browser: Any, url: str, width: int = 1440) -> Any:
    page = browser.new_page(
        viewport={"width": width, "height": 1000}, color_scheme="light", reduced_motion="reduce"
    )
    page.goto(f"{url}/?__theme=light")
    return page


@pytest.fixture(scope="module")
def known(browser: Any) -> set[tuple[str, str]]:
    """(scheme, rule) of what a bare page has."""
    with server(program=BARE, guard=False) as url:
        page = open_page(browser, url)
        page.get_by_role("tab", name="one").wait_for()
        for part in (page.get_by_label("number input for slider"), page.get_by_label("checkbox")):
            part.wait_for()
        page.get_by_text("html", exact=True).wait_for()
        page.wait_for_timeout(500)
        found = {(scheme, rule) for scheme, rule, _ in findings(page)}
        page.close()
    return found


def visit_tabs(page: Any) -> Iterator[str]:
    """Every tab, as a visitor finds it who has used it."""
    open_tab(page, "Watch")
    yield "Watch"
    fold = page.locator(".ouro-details")
    if fold.get_attribute("open") is None:
        fold.locator("summary").click()
    page.get_by_role("button", name="Another machine", exact=True).click()
    page.locator("#chart-what_if").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-what_if .ouro-what-if-time .main-svg", timeout=60_000)
    page.locator(".ouro-what-if-fold > summary").click()
    yield "Watch, another machine"
    page.locator(".ouro-what-if-fold > summary").click()
    fold.locator("summary").click()
    open_tab(page, "Compare")
    page.locator(
        "#compare-view .ouro-plot"
    ).scroll_into_view_if_needed()  # it is drawn where it is seen
    page.wait_for_selector("#compare-view .main-svg", timeout=60_000)
    yield "Compare"
    open_tab(page, "Learn")
    page.wait_for_selector("#learn-view .ouro-learn[data-at]")
    for figure, (chapter, stop) in PICTURES.items():
        address = f"#learn/{CHAPTERS[chapter]['id']}/{stop + 1}"
        page.evaluate("address => { location.hash = address; }", address)
        page.wait_for_selector(f'.ouro-learn[data-at="{chapter}.{stop}"]')
        if figure == "dice":
            page.locator(".ouro-dice-many").click()
        if figure == "theory":
            page.wait_for_selector(".ouro-theory-speedup .main-svg")
        yield f"Learn, {figure}"
    page.locator(".ouro-learn-chapter").first.click()
    for _ in CHAPTERS[0]["stops"]:
        if page.locator(".ouro-learn-option").first.is_visible():
            break
        page.locator(".ouro-learn-next").click()
    page.locator(".ouro-learn-option").first.click()
    yield "Learn, a question"
    open_tab(page, "Results")
    page.wait_for_selector(".main-svg >> visible=true")
    yield "Results"
    open_tab(page, "Proof")
    page.get_by_label("number input for seeds").fill("100")
    page.keyboard.press("Tab")
    page.locator("#prove").click()
    page.wait_for_selector('#proof-view .ouro-proof[data-done="true"] li', timeout=180_000)
    yield "Proof"
    open_tab(page, "Play")
    page.locator("#play-guess textarea").fill("takes")
    page.keyboard.press("Enter")
    page.wait_for_selector('#play-view .ouro-draft-game[data-rounds="1"]', timeout=60_000)
    yield "Play"
    open_tab(page, "Recorded runs")
    page.wait_for_selector("#gallery .ouro-gallery > li")
    yield "Recorded runs"
    open_tab(page, "Drafts and models")
    yield "Drafts and models"


@pytest.mark.timeout(600)  # of every place, light and dark
def test_axe_finds_nothing_that_is_ours(
    browser: Any, url: str, known: set[tuple[str, str]]
) -> None:
    page = open_page(browser, url)
    page.wait_for_selector("#token-view .ouro-token")
    ask(page, "Count from one to five.", 16)
    generate(page)
    page.locator("#token-view .ouro-token").nth(3).click()
    page.wait_for_timeout(500)
    for tab in visit_tabs(page):
        page.wait_for_timeout(800)
        page.evaluate(MARK_SHOWN)
        found = findings(page, "" if tab == "Watch" else "[data-shown]")
        assert {(scheme, rule) for scheme, rule, _ in found} <= known, (tab, found)
        ours = "([target, ours]) => { const n = document.querySelector(target); return !!(n && n.closest(ours)); }"
        inside = [one for one in found if page.evaluate(ours, [one[-1], OURS])]
        assert inside == [], (tab, inside)
    page.close()


def test_on_a_phone_nothing_is_wider_than_the_screen_and_nothing_moves_by_itself(
    browser: Any, url: str
) -> None:
    page = open_page(browser, url, width=390)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector("#token-view .ouro-token")
    ask(page, "Count from one to five.", 16)
    page.evaluate("scrollTo(0, 0)")
    generate(page)
    top = page.locator("#token-view").bounding_box()["y"]
    assert abs(top) < page.viewport_size["height"] / 2, "who has asked sees the result"
    page.locator("#token-view .ouro-token").nth(3).click()
    box = page.locator("#token-view .ouro-card").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    for tab in visit_tabs(page):
        page.wait_for_timeout(800)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390, tab
    page.close()
