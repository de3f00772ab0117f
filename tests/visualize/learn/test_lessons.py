"""Learn, Traces, the replay that stands alone and the static gallery, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.file import read_trace
from tests import ROOT
from tests.visitor import (
    ask,
    chart,
    choose,
    faultless,
    generate,
    has,
    open_file,
    open_settings,
    open_tab,
    preset,
    pressed,
    set_count,
    set_number,
    tile,
    tokens,
    watch,
)
from tests.visualize.learn import as_shown
from visualize.deploy import static_site
from visualize.gallery import runs as gallery
from visualize.learn import lessons
from visualize.learn.chapters.guess import QUIZ
from visualize.watch.tab import RECORDED

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

HOSTILE = "<script>window.hacked = true</script>{{value}}${alert(1)}"


@pytest.fixture
def offline(browser: Any) -> Iterator[Any]:
    """A visitor without a network; nothing may fail in the page's scripts."""
    with faultless(browser, offline=True) as visitor:
        _, asked = watch(visitor)
        yield visitor
        assert all(address.startswith(("file:", "data:", "blob:")) for address in asked)


def saved(page: Any, kind: str) -> tuple[str, str]:
    """Name and text of the file that a button hands over."""
    with page.expect_download() as download:
        page.locator(f'#save-view [data-kind="{kind}"]').click()
    return download.value.suggested_filename, Path(download.value.path()).read_text(
        encoding="utf-8"
    )


def read_chapter(page: Any, number: int) -> None:
    """Read a chapter to its end; every stop shows its words, and marks something in the run beside
    it."""
    chapter = lessons.chapters()[number]
    page.locator(".ouro-learn-chapter").nth(number).click()
    for stop in chapter["stops"]:
        first = as_shown(stop["words"][0])
        page.locator(".ouro-learn-words p").first.get_by_text(first, exact=True).wait_for()
        if "spot" in stop:
            page.wait_for_selector(".ouro-learn-run [data-spot]", state="attached")
        if "at" in stop:
            at = f"step {stop['at']['step'] + 1} of"
            page.wait_for_function(
                "t => document.querySelector('.ouro-learn-run "
                ".ouro-count').textContent.startsWith(t)",
                arg=at,
            )
        page.locator(".ouro-learn-next").click()
    page.get_by_text("A question", exact=True).wait_for()


def guess(page: Any, question: dict[str, Any]) -> None:
    """Guess at three steps, rightly; none of them is one that was shown before."""
    count = page.locator(".ouro-learn-run .ouro-count")
    known = 0
    for turn in range(3):
        page.locator(".ouro-learn-option:not(:disabled)").first.wait_for()
        number = int(re.search(r"step (\d+) of", count.inner_text())[1])  # type: ignore[index]
        assert number - 1 > known, "it goes on in the run"
        known = number - 1
        one = next(r for r in question["rounds"] if r["step"] == known)
        shown = page.locator(".ouro-learn-guess").all_inner_texts()
        assert len(shown) == len(one["tokens"])
        own = page.locator(f'.ouro-step[data-step="{known}"] [data-kind]')
        assert own.locator("visible=true").count() == 0, "what became of it is not told yet"
        page.locator(".ouro-learn-option").nth(one["accepted"]).click()
        verdict = page.locator(".ouro-learn-verdict").inner_text()
        assert verdict.startswith("Right.")
        assert " ".join(one["why"].split()) in " ".join(verdict.split())
        # It is replayed to the commit, where no token is named any more.
        page.wait_for_function(
            """begun => {
              const at = document.querySelector('.ouro-learn-run .ouro-count').textContent;
              return at.startsWith(begun) && !at.includes('token');
            }""",
            arg=f"step {number} of",
        )
        if turn < 2:
            page.get_by_role("button", name="Another one").click()


def answer(page: Any, number: int) -> None:
    """Answer a chapter's question, first wrongly where there are options."""
    question = lessons.chapters()[number]["question"]
    if question["kind"] == "predict":
        guess(page, question)
        return
    wrong = next(n for n in range(len(question["options"])) if n != question["answer"])
    page.locator(".ouro-learn-option").nth(wrong).click()
    assert page.locator(".ouro-learn-verdict").inner_text().startswith("Not quite.")
    assert (
        page.locator('.ouro-learn-option[data-verdict="right"]')
        .inner_text()
        .endswith(question["options"][question["answer"]])
    )


@pytest.mark.parametrize("number", [1, 3, 4, 5])
def test_a_chapter_is_read_to_its_end_and_its_question_answered(page: Any, number: int) -> None:
    page.get_by_role("tab", name="Learn").click()
    page.wait_for_selector("#learn-view .ouro-learn[data-at]")
    read_chapter(page, number)
    answer(page, number)
    assert page.locator(".ouro-learn-chapter").nth(number).get_attribute("data-done") == ""
    page.locator(".ouro-learn-next").click()
    page.get_by_role("heading", name=lessons.chapters()[number + 1]["title"]).wait_for()


def test_the_rail_is_moved_along_by_keys_and_tells_where_one_is(offline: Any, site: Path) -> None:
    offline.goto((site / "index.html").as_uri())
    offline.wait_for_selector(".ouro-learn[data-at]")
    chapters, rail = lessons.chapters(), offline.locator(".ouro-learn-chapter")
    has(rail, len(chapters))
    has(offline.locator('.ouro-learn-chapter[tabindex="0"]'), 1)
    rail.first.focus()
    offline.keyboard.press("ArrowRight")
    offline.keyboard.press("ArrowRight")
    offline.keyboard.press("Enter")
    offline.get_by_role("heading", name=chapters[2]["title"]).wait_for()
    here = offline.locator('.ouro-learn-chapter[aria-current="step"]')
    assert here.inner_text() == chapters[2]["title"]
    assert here.evaluate("node => node === document.activeElement"), "the focus stays on the rail"
    offline.keyboard.press("End")
    assert rail.last.evaluate("node => node === document.activeElement")
    width = "node => node.querySelector('i i').offsetWidth"
    before = here.evaluate(width)
    offline.locator(".ouro-learn-next").click()
    assert here.evaluate(width) > before, "one stop further"


def test_who_has_seen_a_whole_run_is_asked_about_another(offline: Any, site: Path) -> None:
    offline.goto((site / "index.html").as_uri())
    offline.wait_for_selector(".ouro-learn[data-at]")
    read_chapter(offline, 2)  # it ends with the whole of the run that chapter 1 asks about
    read_chapter(offline, 1)
    offline.locator(".ouro-learn-option:not(:disabled)").first.wait_for()
    first = gallery.trace(QUIZ[1]).steps[0].tree
    has(offline.locator(".ouro-learn-guess"), len(first) - 1)
    has(offline.locator(".ouro-learn-option"), len(first))


def first_asked(page: Any) -> int:
    """The step, from 1 on, that the quiz of chapter 1 asks about first."""
    page.wait_for_selector(".ouro-learn[data-at]")
    read_chapter(page, 1)
    page.locator(".ouro-learn-option:not(:disabled)").first.wait_for()
    found = re.search(r"step (\d+) of", page.locator(".ouro-learn-run .ouro-count").inner_text())
    return int(found[1])  # type: ignore[index]


def test_a_step_that_was_shown_before_the_page_was_loaded_anew_is_not_asked_about(
    offline: Any, site: Path
) -> None:
    offline.goto((site / "index.html").as_uri())
    once = first_asked(offline)
    offline.reload()
    assert first_asked(offline) > once


def test_who_has_seen_a_text_elsewhere_is_not_asked_about_it(offline: Any, site: Path) -> None:
    """Another run of the same prompt has shown the text that the first run of the quiz writes."""
    offline.goto(f"{(site / 'traces.html').as_uri()}#fibonacci-ngram")
    offline.get_by_text(gallery.trace("fibonacci-ngram").prompt.text).first.wait_for()
    offline.locator(".ouro-run .ouro-token").last.wait_for()
    offline.goto((site / "index.html").as_uri())
    first_asked(offline)
    first = gallery.trace(QUIZ[1]).steps[0].tree
    has(offline.locator(".ouro-learn-guess"), len(first) - 1)


def test_the_quiz_is_answered_by_keys_and_by_touch_on_a_phone(browser: Any, site: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    first_asked(page)
    option = page.locator(".ouro-learn-option")
    option.first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert option.nth(1).get_attribute("data-verdict") in ("right", "wrong")
    page.locator(".ouro-learn-verdict").wait_for()
    page.keyboard.press("Enter")  # the focus is on *Another one*
    page.locator(".ouro-learn-verdict").wait_for(state="detached")
    option.nth(2).tap()
    assert option.nth(2).get_attribute("data-verdict") in ("right", "wrong")
    page.locator(".ouro-learn-next").tap()
    page.get_by_role("heading", name=lessons.chapters()[2]["title"]).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_own_runs_are_points_on_the_theorys_curves(page: Any) -> None:
    choose(page, "Speculative decoding")
    preset(page, "fixed", "speculative")
    ask(page, "Count from one to ten in words.", 16)
    generate(page)
    speedup = float(tile(page, "Speedup").removesuffix("×"))
    page.get_by_role("tab", name="Learn").click()
    page.locator(".ouro-learn-chapter", has_text="When it does not pay").click()
    for _ in range(3):
        page.locator(".ouro-learn-next").click()
    page.locator(".ouro-theory-speedup .main-svg").first.wait_for()
    own = page.evaluate("document.querySelector('.ouro-theory-speedup').data.find(d => d.text)")
    assert own["y"] == [pytest.approx(speedup, abs=0.01)]
    sliders = page.locator(".ouro-theory input").evaluate_all("all => all.map(one => one.value)")
    assert sliders == ["0.5", "2", "0.15", "0"], "a paragraph before set the first two"
    page.locator('.ouro-theory input[name="cost"]').fill("0.3")
    curve = page.evaluate("[...document.querySelector('.ouro-theory-speedup').data[0].y]")
    assert curve == pytest.approx(
        [sum(0.5**k for k in range(g + 1)) / (0.3 * g + 1) for g in range(17)]
    )
    star = page.evaluate("document.querySelector('.ouro-theory-speedup').data[2].x[0]")
    assert star == max(range(17), key=lambda g: curve[g])


def test_a_trace_that_was_saved_comes_back_equal_after_the_page_was_reloaded(
    page: Any, tmp_path: Path
) -> None:
    choose(page, "Ouroboros")
    ask(page, "Count from one to ten in words.", 24)
    generate(page)
    shown = tokens(page)
    name, text = saved(page, "json")
    trace = read_trace(text)
    assert [str(t) for t in trace.tokens] == [t["id"] for t in shown] and name.startswith(
        "ouroboros-"
    )
    rows = saved(page, "csv")[1].strip().splitlines()
    assert len(rows) == 1 + len(trace.tokens)
    page.reload()
    page.wait_for_selector("#token-view .ouro-token")
    open_tab(page, "Recorded runs")
    file = tmp_path / "mine.json"
    file.write_text(text, encoding="utf-8")
    open_file(page, file)
    page.locator("#token-view .ouro-badge", has_text="recorded on").wait_for()
    page.wait_for_function(
        "n => document.querySelectorAll('#token-view .ouro-token').length === n", arg=len(shown)
    )
    assert tokens(page) == shown
    assert saved(page, "json")[1] == text


def test_a_file_that_is_no_trace_is_refused_and_the_page_goes_on(page: Any, tmp_path: Path) -> None:
    open_tab(page, "Recorded runs")
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"method": HOSTILE}), encoding="utf-8")
    open_file(page, file)
    page.get_by_text("bad.json: this is not a trace").wait_for()
    good = json.loads(gallery.trace("java-speculative").to_json())
    good["texts"][0] = good["prompt"]["text"] = HOSTILE
    file.write_text(json.dumps(good), encoding="utf-8")
    open_file(page, file)
    page.wait_for_function(
        "h => document.querySelector('#token-view .ouro-prompt').textContent.trimEnd() === h",
        arg=HOSTILE,
    )
    assert tokens(page)[0]["text"] == HOSTILE
    assert page.evaluate("window.hacked") is None


def test_a_recorded_run_opens(page: Any) -> None:
    open_tab(page, "Recorded runs")
    has(page.locator(".ouro-gallery-entry"), len(gallery.entries()))
    page.locator('[data-name="river-sam"] button').click()
    page.wait_for_function(
        "document.querySelector('#token-view .ouro-title').textContent.startsWith('SAM')"
    )
    assert "".join(t["text"] for t in tokens(page)) == gallery.trace("river-sam").text


def test_a_link_brings_the_inputs_back(page: Any, browser: Any, url: str) -> None:
    choose(page, "Speculative decoding")
    preset(page, "fixed", "speculative")
    set_number(page, "Draft length (gamma)", 7)
    page.keyboard.press("Tab")
    page.locator("#prompt textarea").fill("Say “hello” & 100% more?")
    set_count(page, 48)
    page.locator('#save-view [data-kind="link"]').click()
    link = page.locator(".ouro-save-address").input_value()
    assert link.startswith(url)
    other = browser.new_page()
    other.goto(link)
    other.get_by_text(
        "The prompt and the settings are those of the link. Nothing was run yet."
    ).wait_for()
    open_settings(other)
    assert other.locator("#prompt textarea").input_value() == "Say “hello” & 100% more?"
    assert (
        other.get_by_label("number input for Maximum new tokens", exact=True).input_value() == "48"
    )
    assert not pressed(other, "auto", "speculative")
    assert (
        other.get_by_label("number input for Draft length (gamma)")
        .locator("visible=true")
        .input_value()
        == "7"
    )
    other.close()
    other = browser.new_page()
    other.goto(url + "/?prompt=x&method=speculative&gamma=99")
    other.get_by_text("gamma must be auto, or between 1 and 32, got 99").wait_for()
    other.close()


def test_a_chart_is_saved_as_png_and_as_svg(page: Any) -> None:
    plot = chart(page, "speedup")
    plot.hover()
    for title, start in (
        ("Download plot as a PNG", b"\x89PNG"),
        ("Download plot as an SVG", b"<svg"),
    ):
        with page.expect_download() as download:
            plot.locator(f'.modebar-btn[data-title="{title}"]').click()
        assert download.value.suggested_filename.startswith("speedup-over-plain-decoding")
        assert Path(download.value.path()).read_bytes().startswith(start)


def test_a_replay_opens_from_disk_without_a_network(
    page: Any, offline: Any, tmp_path: Path
) -> None:
    text = saved(page, "html")[1]
    run = gallery.trace(RECORDED)
    file = tmp_path / "replay.html"
    file.write_text(text, encoding="utf-8")
    offline.goto(file.as_uri())
    offline.locator(".ouro-token").first.wait_for()
    shown = offline.eval_on_selector_all(
        ".ouro-token", "nodes => nodes.map(n => n.textContent).join('')"
    )
    assert shown == run.text
    offline.get_by_label("Moment of the run").focus()
    offline.keyboard.press("Home")
    assert offline.locator(".ouro-count").inner_text().startswith(f"step 1 of {len(run.steps)}")
    offline.locator(".ouro-token").first.click()
    assert "target" in offline.locator(".ouro-odds").inner_text()


def test_a_replay_of_256_tokens_has_less_than_four_megabytes_and_runs_no_text_of_it() -> None:
    run = gallery.trace("java-ouroboros")
    steps = (*run.steps, *(replace(step, index=step.index + len(run.steps)) for step in run.steps))
    twice = replace(run, steps=steps, texts=run.texts * 2)
    assert len(twice.tokens) == 256
    assert (
        len(static_site.replay_html(twice, gallery.baseline("java-ouroboros")).encode()) < 4_000_000
    )
    data = json.loads(run.to_json())
    data["prompt"]["text"] = "</script><script>alert(1)</script>"
    text = static_site.replay_html(read_trace(json.dumps(data)))
    assert "</script><script>alert(1)" not in text


def test_the_static_gallery_works_from_disk_without_a_network(offline: Any, site: Path) -> None:
    offline.goto((site / "index.html").as_uri())
    offline.wait_for_selector(".ouro-learn[data-at]")
    read_chapter(offline, 6)
    answer(offline, 6)
    offline.get_by_role("link", name="Recorded runs").click()
    offline.wait_for_selector("#run .ouro-token")
    offline.locator('[data-name="library-union"] button').click()
    offline.wait_for_function(
        "document.querySelector('#run .ouro-title').textContent.startsWith('Union')"
    )
    shown = offline.eval_on_selector_all(
        "#run .ouro-token", "nodes => nodes.map(n => n.textContent).join('')"
    )
    assert shown == gallery.trace("library-union").text
    offline.get_by_role("link", name="Theory").click()
    offline.locator(".ouro-theory-tokens .main-svg").first.wait_for()
    before = offline.locator(".ouro-theory-said").inner_text()
    offline.locator('input[name="alpha"]').fill("0.9")
    assert offline.locator(".ouro-theory-said").inner_text() != before


def test_the_static_gallery_never_replaces_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InvalidInput, match="holds other files"):
        static_site.write_gallery(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_the_static_gallery_is_made_of_the_pages_own_scripts(site: Path) -> None:
    """Not of copies: it contains the text of each module."""
    script = (site / "site.js").read_text(encoding="utf-8")
    for name in ("token_view", "learn_view", "theory_view", "tree_view", "plot"):
        source = next((ROOT / "visualize").glob(f"*/{name}.js")).read_text(encoding="utf-8")
        assert json.dumps(source)[1:-1].replace("</", "<\\/") in script
    assert all(file.stat().st_size < 10_000_000 for file in site.rglob("*"))
