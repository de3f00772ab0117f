"""The live page in Chromium: the site is built as `make static` builds it, and computes runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser import file_server
from visualize.deploy.static_site import write_gallery

pytestmark = [pytest.mark.slow, pytest.mark.served, pytest.mark.timeout(1500)]
PROMPT = "Write a Python function add(a, b) and call add(a, b) twice."
METHODS = ("autoregressive", "speculative", "eagle3", "union")
TOKENS = 24
PATIENCE = 600_000
"""Milliseconds, for a busy machine."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the site below a path, with no header that a file server does not send. The file of the
    weights is fetched if `make setup` has kept only what it converted."""
    pytest.importorskip("ziglang", reason="the pass for a browser needs a compiler")
    folder = tmp_path_factory.mktemp("web")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_HUB_OFFLINE", "")
        write_gallery(folder / "some" / "path", live=True)
    with file_server(folder) as url:
        yield f"{url}some/path/"


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    assert not errors
    tab.close()


def written(page: Page, method: str) -> tuple[str, int]:
    """Run a method with fixed amounts; return its text and the number of its steps."""
    page.evaluate(
        "method => document.dispatchEvent(new CustomEvent('ouro:method', { detail: { method } }))",
        method,
    )
    page.locator(".ouro-settings summary").click()
    page.get_by_label("number input for Maximum new tokens").fill(str(TOKENS))
    if (fixed := page.locator(f"#fixed-{method}")).count():
        fixed.click()
    page.locator(".ouro-options .ouro-close").click()
    page.locator("#prompt textarea").fill(PROMPT)
    page.locator("#generate").click()
    live = f'.ouro-run[data-asked*=\'"method":"{method}"\'][data-done=true]'
    page.wait_for_selector(live)
    steps = page.locator(".ouro-run .ouro-text .ouro-token").last.get_attribute("data-step")
    return page.locator(".ouro-run .ouro-text").inner_text(), int(steps or 0)


def test_methods_write_the_same_text_in_the_browser_and_again_without_a_network(
    address: str, page: Page
) -> None:
    page.goto(address + "watch.html")
    page.locator(".ouro-run[data-recorded=true]").wait_for()
    page.locator(".ouro-live-load").click()
    page.get_by_text("The model runs in this browser").wait_for()
    texts = {method: written(page, method) for method in METHODS}
    plain, steps = texts["autoregressive"]
    assert len(plain) > TOKENS
    for method in METHODS[1:]:
        text, fewer = texts[method]
        assert text == plain
        assert fewer < steps, "guesses are accepted"
    # The service worker has kept the files.
    page.context.set_offline(True)
    page.reload()
    page.get_by_text("The model runs in this browser").wait_for()


def test_a_browser_without_simd_is_told_so_and_plays_recorded_runs(
    address: str, page: Page
) -> None:
    page.add_init_script("WebAssembly.validate = () => false")
    page.goto(address + "watch.html")
    page.get_by_text("this browser has no WebAssembly with SIMD").wait_for()
    page.locator(".ouro-run[data-recorded=true] .ouro-token").first.wait_for()
    assert page.locator("#generate").is_disabled()


def test_the_folder_lists_what_is_packed_with_its_licence(address: str, page: Page) -> None:
    page.goto(address + "watch.html")
    page.get_by_role("link", name="licences").click()
    listed = page.content()
    for name in ("Pyodide", "pydantic", "tokenizers", "plotly.js", "SmolLM2"):
        assert name in listed
    assert Path("LICENSE").exists()
