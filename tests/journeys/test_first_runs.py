"""The first minutes of a stranger: the first question of one's own, Stop, a refusal, a busy
machine, a run that was saved."""

import json
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_run
from tests.browser import server, wait_until_ready
from tests.endless_runs import LONG_ANSWER, LONG_COMPARISON
from tests.folders import chatting_pair
from tests.visitor import (
    DONE,
    ask,
    bars,
    chart,
    choose,
    ended,
    example,
    finish,
    generate,
    has,
    open_file,
    open_tab,
    preset,
    saved,
    set_count,
    switch,
    tile,
    tokens,
    visit,
)
from visualize.watch.examples import EXAMPLES

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

QUESTION = "Why is the sky blue?"
CHAT = "#chat input"
LONG = 120_000
UNDER_WAY = '#token-view .ouro-run[data-done="false"]'
SLOW = """
import runpy
from dataclasses import replace
from ouroboros_core.trace import metrics
from visualize.run import live
from visualize.watch import job

lanes_of_run, measured, judge, compared = job._lanes_of_run, live.silently, metrics.busy, []

def noted(*given):
    compared.append(given)
    return lanes_of_run(*given)

def slowed(*given):
    trace = yield from measured(*given)
    steps = tuple(replace(s, seconds=replace(s.seconds, verify=100 + s.seconds.verify)) for s in trace.steps)
    slow = trace.method == "autoregressive" and len(compared) == 1
    return replace(trace, steps=steps) if slow else trace

job._lanes_of_run, live.silently = noted, slowed
metrics.busy = lambda trace, plain: judge(trace, plain) if metrics.plain_step_seconds(plain) > 50 else None
runpy.run_path("app.py", run_name="__main__")
"""
"""In all rounds of the first comparison plain decoding took 100 s a pass; whatever else this
machine does is not judged."""


ENDLESS = """
import runpy
import time
from ouroboros_core.trace import metrics
from visualize.run import live

measured, runs = live.silently, []

def endless(*given):
    runs.append(given)
    if len(runs) <= 2:
        return (yield from measured(*given))
    while True:
        time.sleep(0.1)
        yield live.Comparing()

live.silently = endless
metrics.busy = lambda *_: None
runpy.run_path("app.py", run_name="__main__")
"""
"""The first round ends, and the second one does not."""


def notice(page: Any) -> Any:
    return page.locator("#token-view .ouro-notice")


def status(page: Any) -> str:
    return str(page.locator("#token-view .ouro-status").inner_text())


def wait_for_tokens(page: Any, count: str, inside: str = "#token-view") -> None:
    """Wait until a run has so many tokens."""
    there = f"document.querySelectorAll('{inside} .ouro-token').length"
    page.wait_for_function(f"{there} {count}", timeout=LONG)


def drawn(page: Any, name: str) -> str:
    """What is written in a chart's place."""
    return str(chart(page, name).inner_text())


def test_the_first_question_of_ones_own_is_answered_and_a_raw_prompt_of_a_link_is_counted(
    page: Any, url: str
) -> None:
    assert page.locator(CHAT).is_checked()
    ask(page, QUESTION, 16)
    assert page.locator(CHAT).is_checked()
    before = ended(page)
    page.locator("#prompt textarea").press("Enter")
    finish(page, before)
    assert len(tokens(page)) == 16
    assert notice(page).filter(has_text="The answer is empty").count() == 0
    example(page, EXAMPLES[0].label)
    chip = page.get_by_role("button", name=EXAMPLES[0].label, exact=True)
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.locator("#prompt textarea").input_value() == EXAMPLES[0].prompt
    page.wait_for_timeout(500)  # what follows a run is still asked for
    page.goto(f"{url}?prompt=Tell me&chat=0")
    page.get_by_text("the settings are those of the link").wait_for()
    assert not page.locator(CHAT).is_checked()
    assert page.locator(".ouro-settings-count").first.inner_text() == "1 changed"


def test_an_empty_answer_says_why_and_one_click_mends_it(page: Any) -> None:
    ask(page, QUESTION, 16)
    switch(page, "chat", False)
    generate(page)
    assert [token["text"] for token in tokens(page)] == ["<|im_end|>"]
    assert "end" in tokens(page)[0], "no part of the answer"
    assert status(page).startswith("1 token in 1 step, ended by the model (<|im_end|>)")
    why = "The answer is empty. The model got the prompt as it stands"
    assert notice(page).inner_text().startswith(why)
    text = page.locator("#token-view .ouro-text").bounding_box()
    assert notice(page).bounding_box()["y"] < text["y"], "where the result is"
    notice(page).get_by_role("button", name="Run it with the chat template").click()
    wait_for_tokens(page, "> 1")
    page.wait_for_selector(DONE, timeout=LONG)
    assert len(tokens(page)) == 16
    assert page.locator("#token-view .ouro-text").evaluate("text => text.scrollTop") == 0
    assert page.locator("#token-view .ouro-prompt").inner_text().strip() == QUESTION
    page.locator(f"{CHAT}:checked").wait_for(state="attached")
    assert notice(page).filter(has_text="The answer is empty").count() == 0


def test_from_the_click_on_the_old_run_is_marked_and_one_button_is_generate_or_stop(
    page: Any,
) -> None:
    go = page.locator("#generate")
    stop = page.locator("#stop")
    run = page.locator("#token-view .ouro-run")
    badge = run.locator(".ouro-badge")
    words = badge.inner_text(), status(page)
    assert go.is_visible() and not stop.is_visible()
    where = go.bounding_box()
    held: list[Any] = []
    holding = True

    def hold(route: Any) -> None:
        """The server hears nothing until this is released."""
        if holding:
            held.append(route)
        else:
            route.continue_()

    page.route("**/queue/join*", hold)
    ask(page, "word " * 9000, 16)
    go.click()
    assert stop.is_visible() and not go.is_visible()
    assert stop.bounding_box()["x"] == where["x"], "in the same place"
    assert badge.inner_text() == "the run before"
    assert run.get_attribute("data-old") == ""
    opacity = "getComputedStyle(document.querySelector('#token-view .ouro-board')).opacity"
    assert float(page.evaluate(opacity)) < 0.6
    while not held:
        page.wait_for_timeout(20)
    holding = False
    for route in held:
        route.continue_()
    page.get_by_text("has room for 8192").wait_for(timeout=LONG)
    assert page.locator(".toast-body").count() == 0, "it stands where the fault is"
    go.wait_for()
    assert not stop.is_visible(), "also after a refusal"
    assert (badge.inner_text(), status(page)) == words, "nothing took its place"
    assert run.get_attribute("data-old") is None
    assert chart(page, "speedup").locator(".js-line").count() > 0
    field = page.locator("#prompt textarea")
    field.fill("")
    page.locator(".ouro-fault").wait_for(state="hidden")
    go.click()
    page.get_by_text("the prompt is empty; write at least one character").wait_for()
    assert page.evaluate("document.activeElement === document.querySelector('#prompt textarea')")
    assert go.is_visible()
    field.press_sequentially("One")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    assert field.input_value() == "One\ntwo"
    assert page.get_by_text("the prompt is empty").count() == 0
    set_count(page, 8)
    before = ended(page)
    field.press("Enter")
    assert stop.is_visible()
    finish(page, before)
    assert field.input_value() == "One\ntwo"
    assert not stop.is_visible()


def test_the_second_click_of_a_double_click_is_no_wish_to_stop(page: Any) -> None:
    """Stop stands where Generate stood: the run goes on up to where it waits for Stop."""
    ask(page, LONG_ANSWER, 256)
    page.evaluate("['generate', 'stop'].forEach(id => document.getElementById(id).click())")
    wait_for_tokens(page, "> 32", UNDER_WAY)
    page.click("#stop")
    page.get_by_text("Stopped after").first.wait_for()


def test_a_run_that_is_stopped_or_still_timed_shows_all_that_is_known_of_it(page: Any) -> None:
    choose(page, "Speculative decoding")
    preset(page, "fixed", "speculative")
    ask(page, LONG_ANSWER, 256)
    page.click("#generate")
    wait_for_tokens(page, "> 12", UNDER_WAY)
    page.click("#stop")
    page.get_by_text("Stopped after").first.wait_for()
    page.locator("#generate").wait_for()
    trace, baseline = read_run(saved(page))
    assert (trace.ending, baseline) == ("cancelled", None)
    written, steps = len(tokens(page)), len(trace.steps)
    assert 12 < written == metrics.new_tokens(trace) < 256
    stopped = f"Stopped after {written} tokens in {steps} steps."
    assert status(page) == f"{stopped} There is no plain run to compare with."
    assert tile(page, "Tokens per pass") == f"{metrics.mean_acceptance_length(trace):.2f}"
    assert tile(page, "Speedup") == "–"
    assert "A step takes" in page.locator("#token-view .ouro-numbers").text_content()
    assert sum(map(sum, bars(page, "acceptance"))) == written
    for name, mark in (("where", ".bars path"), ("positions", ".bars path"), ("time", ".js-line")):
        assert chart(page, name).locator(mark).count() > 0
    assert "There is no plain run to compare with" in drawn(page, "speedup")
    assert page.get_by_text("Measured when the run has ended").count() == 0
    ask(page, LONG_COMPARISON, 32)
    page.click("#generate")
    page.get_by_text("Timing it").first.wait_for(timeout=LONG)
    page.locator("#generate").wait_for()
    trace, baseline = read_run(saved(page))
    assert (len(trace.tokens), trace.ending, baseline) == (len(tokens(page)), trace.ending, None)
    assert trace.ending != "cancelled"
    assert page.get_by_text("Measured when the run has ended").count() == 0


def assert_what_the_pair_lacks_is_offered_nowhere(page: Any) -> None:
    """A pair of target and draft has no heads, the embedded one has."""
    names = {"Medusa": 0, "Prompt lookup": 1}
    page.locator(".ouro-all").click()
    for name, count in names.items():
        has(
            page.locator(".ouro-sheet b").get_by_text(name, exact=True).locator("visible=true"),
            count,
        )
    page.keyboard.press("Escape")
    open_tab(page, "Compare")
    page.locator(".ouro-compare-more summary").click()
    offered = page.locator(".ouro-compare-method option:enabled").all_inner_texts()
    others = page.locator(".ouro-compare-others button").locator("visible=true").all_inner_texts()
    for name, count in names.items():
        assert offered.count(name) == others.count(name) == count
    open_tab(page, "Proof")
    page.get_by_role("combobox", name="Method").last.click()
    for name, count in names.items():
        has(page.get_by_role("option", name=name, exact=True), count)


@pytest.mark.slow
def test_what_compare_offers_a_pair_without_a_draft_model_runs(
    browser: Any, tmp_path: Path
) -> None:
    """All offered methods at once, with the values that are chosen at first."""
    target = chatting_pair(tmp_path)[:2]
    with server(*target) as url:
        for page in visit(browser, url):
            wait_until_ready(url)
            open_tab(page, "Compare")
            page.wait_for_function(
                "document.querySelector('.ouro-compare-method option[disabled]')", timeout=LONG
            )
            chosen = page.locator(".ouro-compare-method select").evaluate(
                "list => [list.value, list.selectedOptions[0].disabled]"
            )
            assert chosen[1] is False and chosen[0] not in ("speculative", "ouroboros")
            page.locator(".ouro-compare-more summary").click()
            for other in page.locator(".ouro-compare-others button:enabled").all():
                if other.get_attribute("aria-pressed") == "false":
                    other.click()
            page.get_by_label("Own prompt").fill("Count from one to ten in words.")
            page.locator(".ouro-compare-tokens").fill("8")
            page.get_by_role("button", name="Measure here").click()
            page.wait_for_function(
                "document.querySelector('.ouro-compare-status').textContent"
                ".startsWith('Measured here.')",
                timeout=LONG,
            )
            assert page.locator(".ouro-compare-status").inner_text() == "Measured here."
            states = page.locator(".ouro-compare-row[data-state]").count()
            assert page.locator(".ouro-compare-row").count() > 5 and states == 0


@pytest.mark.slow
def test_a_timing_gives_way_to_the_next_run_of_anybody(browser: Any, tmp_path: Path) -> None:
    """The first visitor's second round never ends."""
    complete = f"{DONE}[data-timing]:not([data-old])"
    with server(*chatting_pair(tmp_path), one_round=False, program=ENDLESS) as url:
        for page in visit(browser, url):
            ask(page, "Count from one to ten in words.", 8)
            page.click("#generate")
            again = page.locator("#token-view .ouro-status", has_text="Measuring again, 2 of 3 …")
            again.wait_for(timeout=LONG)
            assert page.locator("#generate").is_visible()
            shown = page.locator(".ouro-tile", has_text="Speedup")
            assert shown.locator(".ouro-tile-spread").inner_text() == "1 round so far"
            trace, baseline = read_run(saved(page))
            assert baseline is not None
            assert tile(page, "Speedup") == f"about {metrics.speedup(trace, baseline):.1f}×"
            assert page.get_by_text("Measured when the run has ended").count() == 0
            for other in visit(browser, url):
                ask(other, "Count from ten to one in words.", 8)
                other.click("#generate")
                other.wait_for_selector(complete, timeout=LONG)
                assert len(tokens(other)) == 8 and other.locator("#generate").is_visible()
                assert_what_the_pair_lacks_is_offered_nowhere(other)
            assert status(page).endswith("Measuring again, 2 of 3 …"), "it goes on"
            ask(page, "Name the days of the week.", 16)
            page.click("#generate")
            wait_for_tokens(page, "=== 16")
            page.wait_for_selector(complete, timeout=LONG)


@pytest.mark.slow
def test_a_speedup_measured_on_a_busy_machine_is_marked_and_one_click_measures_it_again(
    browser: Any, tmp_path: Path
) -> None:
    with server(*chatting_pair(tmp_path), program=SLOW) as url:
        for page in visit(browser, url):
            ask(page, "Count from one to ten in words.", 16)
            generate(page)
            text, wrong = [token["text"] for token in tokens(page)], tile(page, "Speedup")
            assert float(wrong.rstrip("×")) > 100
            box = page.locator(".ouro-tile", has_text="Speedup")
            assert "measured on a busy machine; count passes instead" in box.inner_text()
            assert box.get_attribute("data-doubtful") == ""
            assert "busy machine" in page.locator("#token-view .ouro-numbers").text_content()
            assert notice(page).inner_text().startswith("Speedup not shown: busy machine.")
            why = "The speedup was measured on a busy machine: passes of plain decoding took"
            assert notice(page).get_attribute("title").startswith(why)
            again = notice(page).get_by_role("button", name="Measure again")
            stop = "document.querySelector('#stop').checkVisibility()"
            assert again.evaluate(f"button => {{ button.click(); return {stop}; }}")
            tiles = "#token-view .ouro-tile:nth-child(2) dd"
            page.wait_for_function(  # a dash stands there until the first round
                f"length => {{ const text = document.querySelector('{tiles}')?.innerText;"
                r" return /^\d/.test(text) && text.length < length; }",
                arg=len(wrong),
                timeout=LONG,
            )
            page.wait_for_selector(f"{DONE}:not([data-timing])", timeout=LONG)
            assert float(tile(page, "Speedup").rstrip("×")) < 100
            assert [token["text"] for token in tokens(page)] == text
            assert notice(page).count() == 0
            assert page.get_by_text("measured on a busy machine").count() == 0


def test_a_saved_run_keeps_the_plain_run_it_was_compared_with(page: Any, tmp_path: Path) -> None:
    ask(page, "Count from one to ten in words.", 16)
    generate(page)
    shown = {label: tile(page, label) for label in ("Tokens per second", "Speedup", "Identical")}
    assert shown["Identical"] == "yes"
    file = tmp_path / "run.json"
    file.write_bytes(saved(page))
    baseline = read_run(file.read_bytes())[1]
    assert baseline is not None and baseline.method == "autoregressive"
    open_tab(page, "Recorded runs")
    open_file(page, file)
    page.locator("#token-view .ouro-badge", has_text="recorded on").wait_for()
    assert {label: tile(page, label) for label in shown} == shown
    assert chart(page, "speedup").locator(".js-line").count() > 0
    data = json.loads(file.read_bytes()) | {"baseline": {"method": 3}}
    file.write_text(json.dumps(data), encoding="utf-8")
    open_tab(page, "Recorded runs")
    open_file(page, file)
    page.get_by_text("run.json: baseline: this is not a trace").wait_for()
