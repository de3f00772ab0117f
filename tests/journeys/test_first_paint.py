"""How the page comes over the line: packed, the charts' library last, and nothing moves when it
lands."""

import json
from typing import Any

import httpx
import pytest

from tests.calls import Page
from tests.visitor import chart
from visualize.kit.modules import FONTS

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

SHIFTS = """
new PerformanceObserver((list) => {
  const moved = list.getEntries().filter((one) => !one.hadRecentInput).reduce((sum, one) => sum + one.value, 0);
  document.documentElement.dataset.moved = Number(document.documentElement.dataset.moved || 0) + moved;
}).observe({ type: "layout-shift", buffered: true });
"""


def test_the_page_and_its_assets_come_packed(url: str) -> None:
    with httpx.Client(base_url=url, timeout=30, headers={"Accept-Encoding": "gzip"}) as client:
        for path, most in (("/", 190_000), ("/config", 190_000)):
            with client.stream("GET", path) as answer:
                sent = sum(map(len, answer.iter_raw()))
                assert answer.headers["content-encoding"] == "gzip", path
                assert answer.headers["vary"].lower() == "accept-encoding"
            assert sent < most, path
        page = client.get("/").text
        assert len(page) > 3 * 200_000
        script = page.split('src="./assets/')[1].split('"')[0]
        assert client.get(f"/assets/{script}").headers["content-encoding"] == "gzip"
        plain = client.get("/", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers


def test_a_stream_of_events_arrives_step_by_step(url: str) -> None:
    """A run's first token is read while its last one is not yet written: the server says so itself,
    by when it sent what."""
    asked = {"prompt": "Count from one to ten in words.", "method": "autoregressive"}
    event = Page(url).join({**asked, "max_new_tokens": 24, "compare": False})
    with httpx.Client(base_url=url, timeout=60, headers={"Accept-Encoding": "gzip, br"}) as client:
        lengths: list[int] = []
        with client.stream("GET", f"/gradio_api/call/generate/{event}") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert "content-encoding" not in answer.headers
            pieces = 0
            for chunk in answer.iter_raw():
                pieces += 1
                lengths += [
                    len(json.loads(line[5:])[0]["text"])
                    for line in chunk.decode().splitlines()
                    if line.startswith("data: [")
                ]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3
    assert pieces > 3, "in pieces, not in one"


def test_the_first_visit_is_drawn_in_the_pages_own_typeface(browser: Any, url: str) -> None:
    page = browser.new_context().new_page()
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    page.evaluate("document.fonts.ready.then(() => 0)")
    for family in FONTS:
        wide = """(font) => {
          const probe = document.body.appendChild(document.createElement('span'));
          Object.assign(probe.style, { font: `40px ${font}`, position: 'absolute' });
          probe.textContent = 'Il speculative decoding';
          return probe.getBoundingClientRect().width;
        }"""
        with_it, without = (page.evaluate(wide, font) for font in (f'"{family}", serif', "serif"))
        assert with_it != without, family
    page.context.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_charts_library_comes_after_the_first_paint_and_landing_moves_nothing(
    browser: Any, url: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.add_init_script(SHIFTS)
    page.goto(url)
    chart(page, "acceptance")
    chart(page, "time")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    fetched = "performance.getEntriesByType('resource').find((one) => one.name.includes('plotly'))"
    page.wait_for_function(f"{fetched} !== undefined")
    assert page.evaluate(f"{fetched}.startTime") > paint
    moved = page.evaluate("Number(document.documentElement.dataset.moved || 0)")
    assert moved < 0.05, "half the limit of a good page by web.dev's Core Web Vitals"
    assert page.evaluate("document.querySelectorAll('script[src*=plotly]').length") == 1
    page.close()


def test_a_chart_asks_again_for_a_library_that_did_not_come(browser: Any, url: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    refused: list[str] = []

    def once(route: Any) -> None:
        if route.request.resource_type != "script" or refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort()

    page.route("**/plotly-*", once)
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    chart(page, "time")
    assert len(refused) == 1
    page.close()
