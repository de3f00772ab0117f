"""Timeline, token card and token tree, as a person uses them: by mouse and by keyboard. The first
also where a server renders the page first, as Spaces do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.lookup.memory import load_memory
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Trace
from scripts.screenshots import disagreement
from tests.browser import server
from tests.visitor import (
    answer,
    ask,
    chart,
    choose,
    generate,
    has,
    open_settings,
    point_at,
    preset,
    press_at,
    press_bar,
    pressed,
    switch,
    visit,
)
from visualize.gallery import runs as gallery
from visualize.watch.tab import RECORDED

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

PROMPT = "Count from one to ten in words."
STORY = "Once upon a time there was"
"""Its answer takes more than a few steps of any method."""


SSR = pytest.mark.parametrize("url", ["true"], ids=["ssr-on"], indirect=True)


@pytest.fixture(scope="module")
def url(request: Any) -> Iterator[str]:
    mode = getattr(request, "param", "false")
    with server("--dtype", "float32", environment={"GRADIO_SSR_MODE": mode}) as address:
        yield address


def shown(page: Any) -> str:
    """The text up to the moment: what is pale, hidden or struck through is left out."""
    visible = (
        "nodes => nodes.filter(n => !n.closest('.ouro-step[data-later]')"
        " && n.checkVisibility({visibilityProperty: true}))"
    )
    text = f"{visible}.map(n => n.textContent).join('')"
    return str(page.eval_on_selector_all("#token-view .ouro-token", text))


def count(page: Any) -> str:
    return str(page.locator("#token-view .ouro-count").inner_text())


def recorded(page: Any, url: str, method: str, prompt: str = PROMPT, **more: Any) -> Trace:
    """Generate on the page, and the same run through the endpoint: in float32 it repeats."""
    switch(page, "chat", False)
    generate(page)
    value = answer(url, prompt, method, chat=False, max_new_tokens=24, record=True, **more)
    return read_trace(json.dumps(value["trace"]))


@SSR
def test_the_timeline_shows_the_text_as_it_stood_by_keyboard_and_by_mouse(
    page: Any, url: str
) -> None:
    choose(page, "Speculative decoding")
    ask(page, PROMPT, 24)
    trace = recorded(page, url, "speculative")
    texts, done = [], 0
    for step in trace.steps:
        done += len(step.tokens)
        texts.append("".join(trace.texts[:done]))
    assert shown(page) == texts[-1]
    slider = page.get_by_label("Moment of the run").first
    slider.focus()
    page.keyboard.press("Home")
    assert shown(page) == texts[0] and count(page).startswith(f"step 1 of {len(trace.steps)}")
    for number in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        assert shown(page) == texts[number]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == texts[2] and count(page).startswith("step 3 of")
    page.get_by_role("button", name="Last moment").first.click()
    assert shown(page) == texts[-1]
    page.get_by_role("button", name="First moment").first.click()
    page.get_by_role("button", name="One on").first.click()
    assert shown(page) == texts[1]
    told = page.locator("#token-view .ouro-said").inner_text()
    assert told.startswith("Step 2: ")
    page.get_by_label("Speed").first.select_option("8")
    slider.focus()
    page.keyboard.press(" ")
    page.wait_for_function(
        "n => document.querySelector('#token-view .ouro-count').textContent.startsWith(`step ${n} "
        "of`)",
        arg=len(trace.steps),
    )
    assert shown(page) == texts[-1]


def test_published_settings_are_a_click_on_the_page_and_a_word_for_a_program(
    page: Any, url: str
) -> None:
    choose(page, "Prompt lookup")
    preset(page, "published", "prompt_lookup")
    wanted = methods.get("prompt_lookup").published
    field = page.get_by_label("number input for Tokens copied (num_tokens)")
    assert field.input_value() == str(wanted["num_tokens"])
    assert not pressed(page, "auto", "prompt_lookup")
    ask(page, PROMPT, 24)
    trace = recorded(page, url, "prompt_lookup[published]")
    assert trace.hyperparameters == wanted
    assert shown(page) == trace.text


def test_draft_tokens_appear_one_by_one_then_the_verdict_then_the_commit(
    page: Any, url: str
) -> None:
    choose(page, "Speculative decoding")
    preset(page, "fixed", "speculative")
    ask(page, PROMPT, 24)
    trace = recorded(page, url, "speculative", knobs={"gamma": 2})
    corrected = (n for n, step in enumerate(trace.steps) if step.kind == "correction" and n)
    number = next(n for n in corrected if len(trace.steps[n].tree) == 3)
    step = trace.steps[number]
    page.get_by_role("button", name="slow motion").first.click()
    page.get_by_label("Moment of the run").first.focus()
    page.keyboard.press("Home")
    for _ in range(200):
        if count(page).startswith(f"step {number + 1} of"):
            break
        page.keyboard.press("ArrowRight")
    part = f'#token-view .ouro-step[data-step="{number}"]'

    def state() -> list[tuple[str, bool]]:
        nodes = page.eval_on_selector_all(
            part + " :is(.ouro-token, .ouro-rejected)",
            "nodes => nodes.map(n => [n.className, n.checkVisibility({visibilityProperty: true})])",
        )
        return [tuple(node) for node in nodes]

    accepted, rejected = len(step.path), 2 - len(step.path)
    kinds = ["ouro-token"] * accepted + ["ouro-rejected"] * rejected + ["ouro-token"]
    seen = []
    for press in range(4):
        if press:
            page.keyboard.press("ArrowRight")
        seen.append((page.locator(part).get_attribute("data-stage"), state()))
    assert [stage for stage, _ in seen] == ["draft", "draft", "verify", "commit"]
    for visible, (_, nodes) in zip((1, 2, 2, 3), seen, strict=True):
        assert nodes == [(kind, n < visible) for n, kind in enumerate(kinds)]
    marked = page.locator("#token-view .ouro-step:not([data-stage]) .ouro-rejected").first
    assert marked.bounding_box()["width"] < 8, "a mark, but in the step that is shown"
    written = sum(len(s.tokens) for s in trace.steps[: number + 1])
    assert shown(page) == "".join(trace.texts[:written])


def test_a_click_locks_the_card_which_says_why_a_token_was_rejected(page: Any, url: str) -> None:
    choose(page, "Speculative decoding")
    preset(page, "fixed", "speculative")
    ask(page, PROMPT, 24)
    trace = recorded(page, url, "speculative", knobs={"gamma": 2})
    number, step = next((n, s) for n, s in enumerate(trace.steps) if s.kind == "correction")
    assert step.target_token is not None
    rejected = page.locator(f'#token-view .ouro-step[data-step="{number}"] .ouro-rejected').first
    point_at(page, rejected)
    card = page.locator("#token-view .ouro-card")
    assert "rejected" in card.inner_text() and "ouro-locked" not in card.get_attribute("class")
    press_at(page, rejected)
    assert "ouro-locked" in card.get_attribute("class")
    page.locator("#token-view .ouro-title").hover()
    text = card.inner_text()
    piece = trace.pieces[step.target_token].replace("\n", "↵")
    assert f"Rejected: the target wanted ‘{piece}’ (" in text
    judged = step.judged[-1]
    rows = page.locator("#token-view .ouro-odds tr").all()
    assert "draft" in rows[0].inner_text() and "target" in rows[0].inner_text()
    best = max(range(len(judged.tokens)), key=lambda n: judged.target[n])
    assert f"{judged.target[best]:.0%}"[:-1] in rows[1].inner_text() or judged.target[best] < 0.1
    has(page.locator("#token-view .ouro-chosen"), 1)
    page.keyboard.press("Escape")
    assert card.is_hidden()
    press_at(page, rejected)
    page.get_by_role("button", name="Close").click()
    assert card.is_hidden()
    first = page.locator('#token-view .ouro-token[tabindex="0"]')
    first.focus()
    page.keyboard.press("Enter")
    assert "ouro-locked" in card.get_attribute("class")
    page.keyboard.press("Escape")
    assert card.is_hidden()


def test_the_card_counts_tokens_that_both_models_find_very_unlikely(page: Any) -> None:
    """The oracle: the probabilities in the recorded run that the page begins with."""
    trace = gallery.trace(RECORDED)
    step = max((s for s in trace.steps if s.kind == "correction"), key=disagreement)
    target, draft = step.judged[-1].target, step.judged[-1].draft
    likeliest = {
        n for odds in (target, draft) for n in sorted(range(len(odds)), key=lambda n: -odds[n])[:10]
    }
    unlikely = {n for n in likeliest if max(target[n], draft[n]) < 0.001}
    token = sum(len(s.tokens) for s in trace.steps[: step.index]) + len(step.path)
    press_at(page, page.locator("#token-view .ouro-token").nth(token))
    rows = page.locator("#token-view .ouro-odds tr").all_inner_texts()
    assert len(unlikely) > 3 and len(rows) == 1 + len(likeliest - unlikely) + 1
    assert rows[-1].strip() == f"{len(unlikely)} more below 0.1%"


def test_the_tree_of_a_step_is_drawn_and_the_charts_share_its_cursor(page: Any, url: str) -> None:
    ask(page, STORY, 24)
    trace = recorded(page, url, "union", STORY)
    number = max(range(2, len(trace.steps) - 1), key=lambda n: len(trace.steps[n].tree))
    step = trace.steps[number]
    seconds = "document.querySelector('#token-view .ouro-bars .ouro-cursor')"
    chart(page, "acceptance")
    page.get_by_label("Moment of the run").first.focus()
    page.keyboard.press("Home")
    for _ in range(number):
        page.keyboard.press("ArrowRight")
    has(page.locator("#token-view .ouro-tree g[data-node]"), len(step.tree) - 1)
    edges = '.ouro-tree .ouro-edge[data-state="accepted"]'
    thick = page.eval_on_selector_all(edges, "nodes => nodes.map(n => Number(n.dataset.below))")
    assert thick == list(step.path)
    assert page.evaluate(f"!{seconds}.hidden")
    before = page.evaluate(f"{seconds}.style.transform")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{seconds}.style.transform") != before
    press_bar(page, number)
    assert count(page).startswith(f"step {number + 1} of")
    node = page.locator("#token-view .ouro-tree g[data-node]").first
    node.focus()
    page.keyboard.press("Enter")
    assert "ouro-locked" in page.locator("#token-view .ouro-card").get_attribute("class")


def test_what_a_method_has_learned_can_be_taken_along(
    page: Any, url: str, browser: Any, tmp_path: Path
) -> None:
    """A file of one visitor makes another one's first run warm."""
    choose(page, "Token Recycling")
    ask(page, PROMPT, 24)
    generate(page)
    keep = page.locator("#memory")
    open_settings(page)
    keep.locator("button").click()
    keep.get_by_text("nothing yet").wait_for()  # a cold run keeps nothing
    switch(page, "warm")
    generate(page)
    open_settings(page)
    with page.expect_download() as download:
        keep.locator("button").click()
    file = tmp_path / "learned.json"
    download.value.save_as(file)
    assert load_memory(file).runs == 1, "as the command line reads it"
    for other in visit(browser, url):
        choose(other, "Token Recycling")
        open_settings(other)
        other.locator("#memory input").set_input_files(file)
        other.locator("#memory").get_by_text("The next run begins with it").wait_for()
        assert other.locator("#warm input").is_checked()
        ask(other, PROMPT, 24)
        generate(other)
        assert other.locator('#token-view [data-learned="history"]').count()
        choose(other, "Plain decoding")
        other.locator("#memory").wait_for(state="hidden")
