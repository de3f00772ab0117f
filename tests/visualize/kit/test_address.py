"""Addresses: of a tab, of a run that a link holds, of what is kept over a reload; and refusals,
which reach the page."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from ouroboros_core import methods
from ouroboros_core.trace.file import read_trace
from tests import ROOT
from tests.visitor import (
    DONE,
    chart,
    choose,
    has,
    open_settings,
    open_tab,
    preset,
    pressed,
    set_count,
    set_number,
    tokens,
)
from visualize.gallery import runs as gallery
from visualize.run import permalink, saving
from visualize.run.request import RunRequest

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

OPEN = "document.querySelector('{} > .tab-wrapper [role=tab][aria-selected=true]')?.dataset.tabId"
"""The tab that is open; on a narrow screen it is among those that are seen."""
PROMPT = "Tell me everything about bread, and begin with the flour."
PAGES = {"results": "Results", "drafts": "Drafts and models", "runs": "Recorded runs"}
"""Pages of the Lab."""


@pytest.fixture
def opened(new_page: Any, url: str) -> Any:
    """Open the page at an address, a path behind the server's."""

    def open_at(path: str, width: int = 1440, ignored: str = "\0") -> Any:
        visitor = new_page((width, 844), ignored)
        visitor.goto(url + path)
        visitor.wait_for_selector("#token-view .ouro-run", state="attached")
        return visitor

    return open_at


def test_a_parameter_that_is_wrong_costs_only_itself() -> None:
    query = "prompt=Hi&method=speculative&gamma=99&temperature=0.5&seed=x&tokens=4&chat=2"
    found = permalink.read(dict(parse_qsl(query)))
    assert found is not None
    inputs, wrong = found
    expected = permalink.Inputs("Hi", "speculative", sampling={"temperature": 0.5})
    assert inputs == expected and (inputs.chat, inputs.max_new_tokens) == (True, 128)
    parts = ("gamma must be auto, or between 1 and 32, got 99", "seed must be", "tokens must be")
    for part in (*parts, "chat must be one of 1, 0"):
        assert sum(part in line for line in wrong) == 1, wrong
    assert len(wrong) == 4
    assert permalink.read({"prompt": "Hi", "method": "none", "seed": "3"}) == (
        permalink.Inputs("Hi", sampling={"seed": 3}),
        [f"method must be one of {', '.join(methods.available())}, got none"],
    )
    assert permalink.read({"gamma": "99"}) is None
    assert permalink.read({"prompt": "x" * 5000, "tokens": "16"}) == (
        permalink.Inputs("", max_new_tokens=16),
        ["a link can hold a prompt of 4000 characters, this one has 5000"],
    )


def test_what_names_a_setting_that_is_gone_is_read_without_it() -> None:
    """Links and traces of an earlier version."""
    query = {"prompt": "Hi", "method": "sam", "merge": "true", "len_bias": "3"}
    assert permalink.read(query) == (
        permalink.Inputs("Hi", "sam", settings={"len_bias": 3}),
        [],
    )
    trace = gallery.trace("bank-lookahead")
    old = replace(trace, hyperparameters=trace.hyperparameters | {"prompt_phrases": True})
    assert read_trace(old.to_json()) == old
    assert permalink.of(old) is None, "these settings cannot be asked for any more"


def test_a_link_names_the_model_and_a_recorded_run_has_an_address_of_its_own(
    opened: Any, url: str
) -> None:
    task = RunRequest("Hi", "union", {}, True, 16, {}).task()
    query = saving.link(task, "a/model")["link"]
    inputs, wrong = permalink.read(dict(parse_qsl(query[1:]))) or (None, [])
    assert inputs is not None and inputs.model == "a/model" and not wrong
    visitor = opened("/#run=fibonacci-eagle3&step=5")
    run = gallery.trace("fibonacci-eagle3")
    visitor.locator("#token-view .ouro-asked", has_text=run.prompt.text).wait_for()
    visitor.locator("#token-view .ouro-tree-note", has_text="Step 5:").wait_for()
    assert visitor.locator("#prompt textarea").input_value() == run.prompt.text
    assert_has_its_rounds(visitor, "fibonacci-eagle3")
    visitor.locator("#save-view [data-kind=link]").click()
    address = visitor.locator(".ouro-save-address")
    address.wait_for()
    assert address.input_value() == f"{url}/#run=fibonacci-eagle3&step=5"
    visitor.evaluate("location.hash = '#run=nothing'")
    visitor.locator(".ouro-fault", has_text="there is no recorded run nothing").wait_for()
    open_tab(visitor, "Recorded runs")
    visitor.locator("[data-name=java-speculative] .ouro-gallery-open").click()
    visitor.locator("#token-view .ouro-title", has_text="Speculative").wait_for()
    assert_has_its_rounds(visitor, "java-speculative")


def assert_has_its_rounds(visitor: Any, name: str) -> None:
    speedup = gallery.speedup(name)
    assert speedup is not None and "3 rounds" in speedup.remark
    assert visitor.locator(".ouro-tile-spread").first.inner_text() == speedup.remark


def test_a_link_offers_the_run_it_names_and_one_click_makes_it(opened: Any) -> None:
    visitor = opened(
        "/?prompt=Count+to+five.&method=speculative&gamma=99&tokens=8&chat=0&model=a/b"
    )
    visitor.get_by_role("button", name="Run this").wait_for()
    said = visitor.locator(".ouro-link").inner_text()
    assert "The prompt and the settings are those of the link. Nothing was run yet." in said
    assert "gamma must be auto, or between 1 and 32, got 99" in said
    assert "The sender had the model a/b." in said
    assert tokens(visitor) == [], "no other run stands beside the inputs of a link"
    status = visitor.locator("#token-view .ouro-status", has_text="Nothing has run yet.")
    status.wait_for()
    assert visitor.locator("#save-view").is_hidden()
    count = visitor.get_by_label("number input for Maximum new tokens", exact=True)
    assert count.input_value() == "8"
    visitor.click(".ouro-link-run")
    visitor.wait_for_selector(f"{DONE} .ouro-token", state="attached", timeout=60_000)
    assert visitor.locator(".ouro-prompt").inner_text() == "Count to five."
    assert visitor.locator("#token-view .ouro-title").inner_text().startswith("Speculative")
    assert len(tokens(visitor)) == 8
    assert visitor.locator(".ouro-link").is_hidden()
    assert visitor.locator("#save-view").is_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_each_tab_has_an_address_and_back_and_forward_go_through_the_tabs(
    opened: Any, url: str, width: int
) -> None:
    query = "?tokens=16"
    visitor = opened(f"/{query}", width, ignored="Connection errored out")  # by who has left
    visitor.locator("#token-view .ouro-token").first.wait_for()

    def at(tab: str, address: str) -> None:
        place = "lab" if tab in PAGES else tab
        visitor.wait_for_function(f"{OPEN.format('.ouro-places')} === '{place}'")
        if tab in PAGES:
            visitor.wait_for_function(f"{OPEN.format('.ouro-lab')} === '{tab}'")
        visitor.wait_for_url(url + "/" + query + address)

    def go_to(tab: str) -> None:
        open_tab(visitor, PAGES.get(tab, tab.capitalize()))

    for name in ("compare", "drafts", "learn"):
        visitor.evaluate("scrollTo(0, 200)")
        go_to(name)
        at(name, f"#{name}")
        if name != "learn":  # where a lesson brings what it rings into sight
            assert visitor.evaluate("scrollY") == 0
    for name in ("drafts", "results", "compare"):  # the Lab opens with the results
        visitor.go_back()
        at(name, f"#{name}")
    for go, name in (
        ("forward", "results"),
        ("back", "compare"),
        ("back", ""),
        ("forward", "compare"),
    ):
        getattr(visitor, f"go_{go}")()
        at(name or "watch", f"#{name}" if name else "")
    for name in ("drafts", "learn"):
        go_to(name)
        at(name, f"#{name}")
    visitor.evaluate("history.back(); setTimeout(() => history.back(), 150)")  # the tab lags behind
    at("results", "#results")
    visitor.reload()
    at("results", "#results")
    visitor.locator(".ouro-result-top").first.wait_for()
    # The Lab opens as it was left.
    for name, there in (("drafts", "drafts"), ("watch", "watch"), ("lab", "drafts")):
        go_to(name)
        at(there, f"#{there}")
    for name in ("runs", "watch"):
        go_to(name)
        at(name, f"#{name}")
    visitor.go_back()
    at("runs", "#runs")
    open_tab(visitor, "Learn")
    open_tab(visitor, "Lab")
    at("runs", "#runs")
    visitor.go_back()
    at("learn", "#learn")


@pytest.mark.parametrize("way", ["reload", "back"])
def test_leaving_in_mid_run_keeps_prompt_settings_and_what_was_written(
    opened: Any, way: str
) -> None:
    visitor = opened("/?prompt=Hi&tokens=8", ignored="")
    visitor.get_by_role("button", name="Run this").wait_for()
    visitor.locator("#prompt textarea").fill(PROMPT)
    choose(visitor, "Speculative decoding")
    open_settings(visitor)
    preset(visitor, "fixed", "speculative")
    set_number(visitor, "Draft length (gamma)", 1)
    set_count(visitor, 256)
    visitor.click("#generate")
    visitor.wait_for_function(
        "document.querySelector('.ouro-badge').textContent === 'live' && "
        "document.querySelectorAll('#token-view .ouro-token').length > 3",
        timeout=60_000,
    )
    sent: list[str] = []
    visitor.on("request", lambda request: sent.append(request.post_data or ""))
    written = "".join(token["text"] for token in tokens(visitor))
    if way == "reload":
        visitor.reload()
    else:
        visitor.goto("about:blank")
        visitor.go_back()
    visitor.wait_for_selector(
        '#token-view .ouro-run[data-unsaved="true"] .ouro-token', state="attached"
    )
    back = "".join(token["text"] for token in tokens(visitor))
    assert back.startswith(written)
    assert visitor.locator("#token-view .ouro-status").inner_text() == (
        f"Stopped after {len(tokens(visitor))} tokens, when the page was left. What was written "
        "stays; Generate starts anew."
    )
    assert visitor.locator("#prompt textarea").input_value() == PROMPT
    assert visitor.locator(".ouro-method[aria-checked=true]").inner_text().startswith("Speculative")
    open_settings(visitor)
    assert not pressed(visitor, "auto", "speculative")
    for label, value in (("Draft length (gamma)", "1"), ("Maximum new tokens", "256")):
        field = visitor.get_by_label(f"number input for {label}", exact=True)
        assert field.locator("visible=true").input_value() == value
    assert visitor.locator(".ouro-link").is_hidden()
    badge = visitor.locator("#token-view .ouro-badge").inner_text()
    assert badge == "from before the page was left"
    assert visitor.locator("#save-view").is_hidden()
    assert not [body for body in sent if "bread" in body], "nobody was told what the browser kept"


@pytest.mark.parametrize("address", ["#race", "#sweep"])
def test_an_address_of_an_earlier_version_leads_to_its_place_now(opened: Any, address: str) -> None:
    visitor = opened(f"/{address}")
    visitor.wait_for_function(f"{OPEN.format('.ouro-places')} === 'compare'")
    visitor.wait_for_selector("#compare-view .ouro-compare-row")


STOP = """() => {
  const node = document.activeElement, near = (selector) => node.closest(selector) !== null;
  const where = {prompt: '#prompt', method: '#method-cards', go: '#generate', settings: '.ouro-settings', options: '.ouro-options',
    result: '.ouro-result'};
  return [Object.keys(where).find((name) => near(where[name])) || 'other', near('.ouro-plot:not(.ouro-bars)')];
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_tab_leads_from_the_prompt_through_the_settings_to_the_result_and_never_into_a_charts_toolbar(
    opened: Any, width: int
) -> None:
    visitor = opened("", width)
    chart(visitor, "acceptance").hover()  # shows its toolbar
    options = visitor.locator(".ouro-watch .ouro-options input").locator("visible=true")
    assert options.count() == 0, "the settings are closed at first"
    visitor.keyboard.press("Tab")
    assert visitor.evaluate("document.activeElement.textContent") == "Skip to the result"
    on_models = "document.activeElement.matches('#pair input')"
    for focused in (True, False):
        visitor.keyboard.press("Tab")
        visitor.wait_for_function(f"{on_models} === {str(focused).lower()}")
        visitor.wait_for_timeout(300)
        assert visitor.locator("ul[role=listbox]").count() == 0, "no Tab opens the list of models"
    models = visitor.locator("#pair input")
    models.click()
    has(visitor.locator("ul[role=listbox]"), 1)
    visitor.keyboard.press("Escape")
    has(visitor.locator("ul[role=listbox]"), 0)
    models.click()
    has(visitor.locator("ul[role=listbox]"), 1)
    visitor.keyboard.press("Escape")
    visitor.locator(".ouro-settings summary").click()
    visitor.locator("#prompt textarea").focus()
    order: list[str] = []
    plots = 0
    for _ in range(120):
        where, plot = visitor.evaluate(STOP)
        order += [where] if where != "other" and order[-1:] != [where] else []
        plots += plot
        if visitor.evaluate("document.activeElement === document.body"):
            break
        visitor.keyboard.press("Tab")
    assert plots == 0
    assert order == ["prompt", "go", "method", "settings", "options", "result"]


def test_nothing_that_the_page_is_made_of_names_a_place_on_the_servers_disk(url: str) -> None:
    texts = [
        httpx.get(url + path, timeout=30).text for path in ("/", "/config", "/gradio_api/info")
    ]
    for trap in (str(ROOT), str(Path.home()) + "/", "site-packages", sys.prefix):
        assert [text[text.index(trap) - 80 :][:200] for text in texts if trap in text] == []
    (library,) = set(re.findall(r'"plotly":"([^"]+)"', texts[0]))
    answer = httpx.get(f"{url}/{library}", timeout=30)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert re.search(r"\d+\.\d+\.\d+", library), "another version has another address"
