"""The page in a real browser, on the embedded pair: what a visitor does, and what a visitor
sees."""

import json
import re
import sys
from collections import Counter
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.file import read_trace
from ouroboros_core.training.folder import agreement_of
from tests import ROOT
from tests.browser import server
from tests.commands import finished
from tests.visitor import (
    DONE,
    answer,
    ask,
    bars,
    chart,
    choose,
    client,
    example,
    generate,
    has,
    open_settings,
    open_tab,
    preset,
    pressed,
    set_number,
    switch,
    tile,
    tokens,
)
from visualize import page as whole_page
from visualize.drafts.tab import records
from visualize.gallery import runs as gallery
from visualize.run import view as views
from visualize.watch.examples import EXAMPLES
from visualize.watch.tab import RECORDED

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

HREF = re.compile(r'href="([^"]+)"[^>]*>([^<]+)<')
HOSTILE = '<img src=x onerror="window.pwned=1"> ${1+1} {{value}} C:\\users </textarea><script>window.pwned=2</script>'
HANGING = """
import runpy, sys, threading
from ouroboros_core.cli import options
options.load_pair = lambda _: threading.Event().wait()
runpy.run_path("app.py", run_name="__main__")
"""


def test_a_recorded_run_is_there_before_anything_is_loaded(browser: Any) -> None:
    """The models never arrive here: what should load them hangs."""
    recorded = gallery.trace(RECORDED)
    with server(program=HANGING) as url:
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("#token-view .ouro-token")
        assert "Loading the models" in page.locator("#models").inner_text()
        shown = tokens(page)
        assert "".join(t["text"] for t in shown) == recorded.text
        assert page.locator(".ouro-badge").inner_text() == views.badge(recorded)
        assert {"draft", "target"} <= {t["source"] for t in shown}
        assert page.locator("h1").inner_text() == "Ouroboros"
        assert chart(page, "acceptance").locator(".bars path").count() > 0
        page.click("#generate")
        page.get_by_text("Waiting for the models to load").first.wait_for()
        page.close()


def test_a_visitor_generates_the_papers_example_and_sees_who_wrote_each_token(
    page: Any, url: str
) -> None:
    """With fixed settings, so that the draft is always asked and suffixes always hang behind it."""
    choose(page, "Ouroboros")
    preset(page, "fixed", "ouroboros")
    example(page, EXAMPLES[0].label)
    shown = tokens(page)
    assert len(shown) == 128
    assert [int(t["index"]) for t in shown] == list(range(128))
    steps = [int(t["step"]) for t in shown]
    assert steps == sorted(steps)
    assert {t["source"] for t in shown} == {"draft", "suffix", "target"}, "the three origins"
    kinds = {(t["source"] == "target", t.get("kind")) for t in shown}
    assert kinds <= {(False, None), *((True, kind) for kind in ("correction", "bonus", None))}
    for step in set(steps):
        sources = [t["source"] for t in shown if int(t["step"]) == step]
        assert sources.count("target") <= 1
        assert "target" not in sources[:-1], "the target's token ends a step"
        ranks = [("draft", "suffix", "target").index(s) for s in sources]
        assert ranks == sorted(ranks), "draft, then suffix, then the target's own"
    settings = methods.get("ouroboros").Hyperparameters.fixed()
    trace = answer(url, EXAMPLES[0].prompt, "ouroboros", knobs=settings)["trace"]
    emitted = [t for s in read_trace(json.dumps(trace)).steps for t in s.tokens]
    assert [int(t["id"]) for t in shown] == emitted, "what is shown is what was written"
    assert "".join(t["text"] for t in shown) == "".join(trace["texts"])
    page.evaluate("document.querySelector('.ouro-legend-more:not([hidden])')?.click()")
    legend = {
        i.get_attribute("data-look"): int(i.locator("b").inner_text())
        for i in page.locator(".ouro-legend .ouro-key").all()
    }
    assert legend == Counter(t["look"] for t in shown)
    assert tile(page, "Identical") == "yes"
    assert float(tile(page, "Tokens per second")) > 0
    assert tile(page, "Speedup").endswith("×")
    assert float(tile(page, "Tokens per pass")) == pytest.approx(128 / (max(steps) + 1), abs=0.01)
    assert page.locator(".ouro-badge").inner_text() == "live"
    drawn: list[tuple[str, str, str]] = page.eval_on_selector_all(
        "#token-view .ouro-token",
        """nodes => nodes.map((node) => {
          const style = getComputedStyle(node);
          return [node.dataset.look, style.backgroundColor, style.textDecorationStyle];
        })""",
    )
    assert len({colour for _, colour, _ in drawn}) == len(legend) >= 3
    underlines = {look: underline for look, _, underline in drawn}
    assert underlines == {look: LOOKS[look].underline for look in legend}, "a sign besides colour"
    for name, mark in (("acceptance", ".bars path"), ("time", ".js-line"), ("speedup", ".js-line")):
        chart(page, name).locator(mark).first.wait_for(state="attached")
    no_choices = "document.querySelector('.ouro-pick [data-chart=choices]').hidden"
    page.wait_for_function(no_choices)  # settings were fixed
    assert sum(map(sum, bars(page, "acceptance"))) == 128
    assert chart(page, "speedup").evaluate("n => n.layout.shapes.map(s => s.y0)") == [1]


def test_what_a_method_chooses_is_drawn_and_one_click_fixes_it(page: Any, url: str) -> None:
    slider = page.get_by_label("number input for tree size")
    position = page.get_by_label("range slider for tree size")
    assert slider.input_value() == "", "auto is the default"
    assert position.get_attribute("aria-valuetext") == "auto"
    assert position.input_value() == position.get_attribute("min"), "auto is its first position"
    ask(page, "Count from one to ten in words.", 32)
    generate(page)
    drawn = bars(page, "choices")
    value = answer(url, "Count from one to ten in words.", max_new_tokens=32)
    steps = read_trace(json.dumps(value["trace"])).steps
    assert drawn[0] == [len(step.tree) - 1 for step in steps]
    assert "tokens expected" in page.evaluate(
        "document.querySelector('#chart-choices .ouro-plot').data[0].customdata[0]"
    )
    preset(page, "fixed", "union")
    assert slider.input_value() == str(methods.get("union").Hyperparameters.fixed()["tree_size"])
    set_number(page, "Tree size", 3)
    assert position.get_attribute("aria-valuetext") == position.input_value() == "3"
    generate(page)
    assert "tree size 3" in page.locator("#token-view .ouro-title").inner_text()


def test_hover_and_keyboard_show_step_position_and_id(page: Any) -> None:
    page.locator("#token-view .ouro-token").nth(3).hover()
    first = tokens(page)[3]
    card = page.locator("#token-view .ouro-card")
    assert f"step {int(first['step']) + 1}" in card.inner_text()
    assert f"position {int(first['index']) + 1}" in card.inner_text()
    assert f"id {first['id']}" in card.inner_text()
    page.locator('#token-view .ouro-token[tabindex="0"]').focus()
    for key, index in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.index") == str(index)
        assert f"position {index + 1}" in card.inner_text()
    page.keyboard.press("Escape")
    assert card.is_hidden()


def test_hostile_prompt_and_output_are_text(page: Any) -> None:
    """The raw prompt repeats the string, so that the model goes on repeating it: input and output
    are both hostile."""
    prompt = "\n".join([HOSTILE] * 4) + "\n"
    ask(page, prompt, 96)
    switch(page, "chat", False)
    generate(page)
    page.wait_for_timeout(500)
    written = "".join(t["text"] for t in tokens(page))
    assert "<img src=x onerror=" in written, "the output must be hostile, too"
    assert "${1+1}" in written
    assert "{{value}}" in written
    assert page.locator(".ouro-prompt").inner_text() == prompt
    assert page.evaluate("window.pwned") is None
    assert page.locator("#token-view img, #token-view script").count() == 0


def test_settings_follow_the_method(page: Any) -> None:
    preset(page, "fixed", "union")
    choose(page, "Speculative decoding")
    group = page.locator(".ouro-method-settings")
    preset(page, "fixed", "speculative")
    group.filter(has_text="gamma").wait_for(state="attached")
    assert "Window size" not in group.text_content()
    choose(page, "Union of all sources")
    group.filter(has_text="Window size").wait_for(state="attached")
    assert not pressed(page, "auto", "union"), "kept for each method"


def test_an_expected_text_is_copied_and_each_copy_says_from_where(page: Any, url: str) -> None:
    prompt = "Count from one to ten in words."
    written = answer(url, prompt, "autoregressive", max_new_tokens=32)["text"]
    choose(page, "SAM-Decoding")
    open_settings(page)
    page.locator("#prediction-sam textarea").fill(written)
    switch(page, "chat")
    ask(page, prompt, 32)
    generate(page)
    assert "".join(token["text"] for token in tokens(page)) == written
    assert tile(page, "Identical text") == "yes"
    copied = [token for token in tokens(page) if token.get("learned") == "prediction"]
    assert len(copied) > 16
    page.locator('#token-view .ouro-token[data-learned="prediction"]').first.hover()
    card = page.locator("#token-view .ouro-card").inner_text()
    assert f"copied from token {int(copied[0]['position']) + 1} of the predicted output" in card
    choose(page, "Prompt lookup")
    page.locator("#prediction-sam").wait_for(state="detached")
    generate(page)
    again = "".join(token["text"] for token in tokens(page))
    assert again == written, "a method without the field ignores what is in it"


def test_the_endpoint_generate_needs_a_prompt_only_and_ends_in_the_trace(url: str) -> None:
    from gradio_client.exceptions import AppError

    job = client(url).submit("What is two and two?", max_new_tokens=12, api_name="/generate")
    last = job.result(timeout=120)
    trace = read_trace(json.dumps(last["trace"]))
    assert last["text"] == trace.text
    assert last["identical"] is True
    assert len(trace.steps) == len(last["trace"]["steps"]) > 0
    assert job.outputs()[-1] == last
    assert client(url).predict("Hi", api_name="/generate")["trace"]["max_new_tokens"] == 128
    with pytest.raises(AppError, match="gamma must be auto, or between 1 and 32, got 99"):
        client(url).predict("Hi", "speculative", {"gamma": 99}, api_name="/generate")


def test_the_papers_colours_stand_with_their_meaning_and_reach_text_and_charts(page: Any) -> None:
    plot, colours = chart(page, "acceptance"), "n => n.data.map(d => d.marker.color)"
    before = plot.evaluate(colours)
    paper = page.get_by_role("button", name="Ouroboros paper's colours")
    assert not paper.is_visible(), "the first screen has no choice of colours"
    page.get_by_text("What the colours mean").click()
    paper.click()
    page.wait_for_timeout(300)
    after = plot.evaluate(colours)
    assert after[0] == "#1f5fd0" != before[0]
    tone = page.evaluate(
        "getComputedStyle(document.querySelector('.ouro-token[data-look=draft]')).getPropertyValue('--tone')"
    )
    assert tone == "#1f5fd0"


def test_two_visitors_take_turns_and_see_their_own_text(browser: Any, url: str) -> None:
    pages = [browser.new_page() for _ in range(2)]
    for number, visitor in enumerate(pages):
        visitor.goto(url)
        visitor.wait_for_selector("#token-view .ouro-token")
        ask(visitor, f"Count from {number}0 to {number}9.", 24)
    for visitor in pages:
        visitor.click("#generate")
    for number, visitor in enumerate(pages):
        own = visitor.locator(".ouro-prompt", has_text=f"Count from {number}0")
        own.wait_for(state="attached", timeout=60_000)  # folded to a line
        visitor.wait_for_selector(f"{DONE}:not([data-timing])", timeout=120_000)
        assert own.count() == 1
        assert tile(visitor, "Identical") == "yes"
        visitor.close()


def test_the_guard_of_these_tests_refuses_what_leaves_this_machine() -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    script = ROOT / ".pytest_cache" / "leave.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(code, encoding="utf-8")
    result = finished([sys.executable, "-m", "tests.loopback", str(script)])
    assert result.returncode != 0
    assert "refused: a connection to" in result.stderr


def test_a_file_is_opened_by_a_button_in_the_pages_own_look(page: Any) -> None:
    open_tab(page, "Recorded runs")
    native, own = page.locator("#open-view input"), page.locator("#open-view .ouro-open-button")
    assert own.bounding_box()["height"] >= 28
    assert native.evaluate("input => getComputedStyle(input).opacity") == "0"
    with page.expect_file_chooser():
        own.click()
    native.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert own.evaluate("label => getComputedStyle(label).outlineStyle") == "solid"
    assert not page.get_by_text("Use via API").is_visible(), "a link that says nothing to a visitor"


def test_the_footer_leads_to_paper_interface_and_licence_and_on_a_space_to_its_code(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = page.locator(".ouro-footer a")
    assert links.all_inner_texts() == ["Paper", "API", "Licence: Apache 2.0"]
    with page.context.expect_page() as opened:
        links.nth(1).click()
    opened.value.get_by_text("/generate").wait_for()
    monkeypatch.setenv("SPACE_ID", "somebody/ouroboros")
    named = {name: address for address, name in HREF.findall(whole_page.footer())}
    assert named["Code"] == "https://huggingface.co/spaces/somebody/ouroboros/tree/main"


def test_the_tab_drafts_tells_how_they_were_made(page: Any) -> None:
    """A chart of agreement and one of loss for each recorded run, without any model."""
    open_tab(page, "Drafts and models")
    page.get_by_text("How the drafts were made").wait_for()
    kinds = {record["kind"] for record in records().values()}
    assert kinds == {"draft", "dspark", "eagle3", "glide", "medusa", "parallel"}
    for name, record in records().items():
        for figure, lines in (("agreement", len(agreement_of(record["curve"][-1]))), ("loss", 1)):
            page.locator(f"#{figure}-{name}").scroll_into_view_if_needed()
            has(page.locator(f"#{figure}-{name} .scatterlayer .trace"), lines)
