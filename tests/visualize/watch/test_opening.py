"""What is painted before the page's scripts have built it.

Oracles: the recorded run, and a browser in which the scripts never come.
"""

import time
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.summary import Summary
from visualize.gallery import runs as gallery
from visualize.run import view as views
from visualize.run.tour import REST_OF_PLAIN, tour
from visualize.server.service import Opening
from visualize.watch.examples import EXAMPLES
from visualize.watch.inputs import CARDS
from visualize.watch.opening import LONGEST_MS, tokens
from visualize.watch.tab import RECORDED

PAGE = "<html><head><title>é</title></head><body><gradio-app>…</gradio-app></body></html>"
HERE = "#ouro-opening"


def test_each_token_stands_there_when_the_run_had_written_it() -> None:
    run = gallery.trace(RECORDED)
    summary = Summary(run, gallery.baseline(RECORDED))
    found = list(tokens(summary))
    assert "".join(text for text, _, _ in found) == run.text
    steps = views.steps_view(
        run.steps, run.texts, Sampling.model_validate(run.sampling), views.piece_of(run)
    )
    shown = [(step, token) for step in steps for token in step["tokens"]]
    assert [look for _, look, _ in found] == [
        token["look"] if "look" in token else step["nodes"][token["node"] - 1]["look"]
        for step, token in shown
    ]
    seconds = [second for _, _, second in found]
    assert seconds == sorted(seconds) and seconds[0] > 0
    # The tour has come to the run's end when the rest of plain decoding begins.
    pace = tour(summary, views.piece_of(run))
    assert seconds[-1] == pytest.approx(pace.length - REST_OF_PLAIN, abs=0.1)


def test_it_comes_into_the_page_and_into_nothing_else() -> None:
    plain = PlainTextResponse(PAGE.replace("gradio-app", "div"))
    routes = [
        Route("/", lambda _: HTMLResponse(PAGE)),
        Route("/other", lambda _: HTMLResponse(PAGE)),
    ]
    between = [Middleware(Opening, "<link>", "<b>ü</b>")]
    client = TestClient(Starlette(routes=routes, middleware=between))
    answer = client.get("/")
    assert answer.text == PAGE.replace("</head>", "<link></head>").replace(
        "<gradio-app>", "<b>ü</b><gradio-app>"
    )
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert client.get("/other").text == PAGE
    below = TestClient(Starlette(routes=routes, middleware=between), root_path="/below")
    assert below.get("/below/").text == answer.text
    client = TestClient(Starlette(routes=[Route("/", lambda _: plain)], middleware=between))
    assert client.get("/").content == plain.body


@pytest.mark.browser
@pytest.mark.embedded
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_any_script_the_run_is_read(browser: Any, url: str, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.route("**/assets/*.js", lambda route: route.abort())
    page.goto(url)
    run = gallery.trace(RECORDED)
    page.wait_for_function(
        """() => getComputedStyle(document.querySelector("#ouro-opening i:last-of-type"))
                   .visibility === "visible" """
    )
    assert page.locator(f"{HERE} pre").text_content() == f"{run.prompt.text}\n\n{run.text}"
    assert page.locator(f"{HERE} blockquote").text_content() == run.prompt.text
    chips, cards = (page.locator(f"{HERE} nav").nth(n).locator("span") for n in range(2))
    assert chips.all_inner_texts() == [example.label for example in EXAMPLES]
    assert cards.locator("b").all_inner_texts() == [card["name"] for card in CARDS]
    sentence = views.sentence(
        Summary(run, gallery.baseline(RECORDED), rounds=gallery.speedup(RECORDED))
    )
    assert page.locator(f"{HERE} strong").text_content() == sentence
    ground, ink = page.evaluate(
        """() => ["backgroundColor", "color"].map((name) =>
             Number(getComputedStyle(document.querySelector("#ouro-opening"))[name]
               .match(/\\d+/)[0]))"""
    )
    assert (ground > ink) == (scheme == "light")
    page.close()


@pytest.mark.browser
@pytest.mark.embedded
def test_it_goes_when_the_page_is_built_and_the_run_plays_on_from_its_moment(
    browser: Any, url: str
) -> None:
    def late(route: Any) -> None:
        time.sleep(2.2)
        route.continue_()

    page = browser.new_page()
    page.route("**/token_view.js", late)
    page.goto(url, wait_until="commit")
    # The element is there a moment before the script behind it has run.
    begun = page.wait_for_selector(f"{HERE}[data-begun]").get_attribute("data-begun")
    page.wait_for_selector(HERE, state="detached", timeout=LONGEST_MS - 1000)
    now, said = page.evaluate(
        """() => [performance.now(),
                  document.querySelector("#token-view .ouro-count").textContent]"""
    )
    spent, shown = (now - float(begun)) / 1000, float(said.split(" · ")[1].removesuffix(" s"))
    run = gallery.trace(RECORDED)
    pace = tour(Summary(run, gallery.baseline(RECORDED)), views.piece_of(run))
    # Seconds are shown to a hundredth. The first step has ended after two seconds of the tour.
    assert metrics.seconds_to_token(run)[0] - 0.005 <= shown
    assert pace.played(shown - 0.005) <= spent + 0.1
    page.close()


@pytest.mark.browser
@pytest.mark.embedded
def test_it_is_not_there_where_the_page_begins_with_something_else(browser: Any, url: str) -> None:
    for other in ("#compare", "#learn/guess", "?prompt=hello"):
        page = browser.new_page()
        page.goto(f"{url}/{other}", wait_until="domcontentloaded")
        assert page.locator(HERE).count() == 0, other
        page.close()


@pytest.mark.browser
@pytest.mark.embedded
def test_it_goes_where_nothing_may_be_stored(browser: Any, url: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.add_init_script(
        """Object.defineProperty(window, "sessionStorage", {
             get() { throw new DOMException("denied", "SecurityError"); } })"""
    )
    page.goto(f"{url}/?__theme=dark", wait_until="commit")
    opening = page.wait_for_selector(f"{HERE}[data-begun]")
    assert opening.get_attribute("style") == "color-scheme: dark;"
    page.wait_for_selector(HERE, state="detached", timeout=LONGEST_MS - 1000)
    assert page.locator("#token-view .ouro-text").is_visible()
    page.close()
