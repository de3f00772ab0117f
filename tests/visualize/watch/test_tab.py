"""Watch, the first place: what is there in the first second, and one screen of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.summary import Summary
from tests.endless_runs import LONG_ANSWER
from tests.visitor import (
    DONE,
    ask,
    choose,
    ended,
    finish,
    generate,
    has,
    open_settings,
    open_tab,
    point_at,
    saved,
    set_number,
    tokens,
)
from visualize.compare import view as compare_view
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.run import view as views
from visualize.run.figures import MORE_CHARTS
from visualize.run.tour import longest_step
from visualize.watch.examples import EXAMPLES
from visualize.watch.tab import RECORDED, has_charts

pytestmark = [pytest.mark.browser, pytest.mark.embedded]

PLAYING = "document.querySelector('#token-view .ouro-step-button[title^=Pause]')"
CUT = """(box) => {
  const top = box.getBoundingClientRect().top;
  const lines = (one) => {  // the prompt is a block: its box is no line
    const range = document.createRange();
    range.selectNodeContents(one);
    return [...(getComputedStyle(one).display === 'block' ? range : one).getClientRects()];
  };
  const rects = [...box.querySelectorAll('span')].flatMap(lines);
  const cut = rects.filter((one) => one.top < top - 3 && one.bottom + 4 > top);
  return box.scrollTop ? cut.length : 0;
}"""
"""How many pieces of text are cut by the upper edge of their box, or have an underline in it; of a
tint the upper three pixels may be, above all letters."""
WRITTEN = """document.querySelectorAll('#token-view [data-done="false"] .ouro-token').length"""
FIELD = "document.querySelector('#prompt textarea')"
SHOWN = "document.querySelectorAll('.ouro-charts > .ouro-chart-shown').length"


def test_the_sentence_of_a_run_tells_passes_speed_and_sameness() -> None:
    plain = next(n for n, run in gallery.runs().items() if run["method"] == "autoregressive")
    trace = gallery.trace(plain)
    steps = len(trace.steps)
    whole = f"{steps} forward passes for {len(trace.tokens)} tokens: plain decoding."
    assert views.sentence(Summary(trace)) == whole
    assert views.sentence(Summary(replace(trace, steps=()))) == ""
    run, baseline = gallery.trace(RECORDED), gallery.baseline(RECORDED)
    assert baseline is not None
    told = views.sentence(Summary(run, baseline))
    drafted = sum(step.draft_passes for step in run.steps)
    small = f", plus {drafted} draft passes"
    passes = f"{len(run.steps)} forward passes instead of {len(baseline.steps)}"
    assert drafted and told.startswith(f"{passes}{small}, ")
    assert "× as fast, same text" in told
    alone = f"{len(run.steps)} forward passes instead of {len(run.tokens)}{small}."
    assert views.sentence(Summary(run)) == alone
    copied = next(n for n, run in gallery.runs().items() if run["method"] == "prompt_lookup")
    assert "draft pass" not in views.sentence(Summary(gallery.trace(copied)))
    other = replace(baseline, steps=baseline.steps[:1])
    assert views.sentence(Summary(run, other)).endswith("another text.")


def test_a_run_has_only_the_charts_that_say_something_of_it() -> None:
    plain = next(n for n, run in gallery.runs().items() if run["method"] == "autoregressive")
    assert has_charts(gallery.trace(plain)) == ["speedup", "where", "what_if"]
    assert set(has_charts(gallery.trace(RECORDED))) >= {"positions", "even"}


RIVAL = "document.querySelector('#token-view .ouro-rival-count').textContent"
SCROLLED = """() => {
  const text = document.querySelector("#token-view .ouro-text");
  window.scrolled = text.scrollTop;
  text.addEventListener("scroll", () => { window.scrolled = Math.max(scrolled, text.scrollTop); });
}"""
WHOLE = """text => {
  const box = text.getBoundingClientRect(), all = [...text.querySelectorAll(".ouro-token")];
  return all.every((token) => [...token.getClientRects()].every(
    (one) => one.right <= box.right && one.bottom <= box.bottom + 2));
}"""


def test_the_first_run_plays_by_itself_and_the_beginning_of_its_answer_stays_in_sight(
    browser: Any, url: str
) -> None:
    """In a low window, where the whole answer is in sight, and on a phone; both play at once."""
    pages = [
        browser.new_page(viewport={"width": width, "height": height})
        for width, height in ((1024, 768), (390, 844))
    ]
    for page in pages:
        page.goto(url, wait_until="commit")
        # However late the page is built, the run begins at its beginning.
        page.wait_for_selector("#ouro-opening").evaluate("node => node.remove()")
    for page in pages:
        # Both at one moment: it has begun, and is not over.
        hidden = "document.querySelector('#token-view .ouro-step[data-later]')"
        page.wait_for_function(f"{PLAYING} && {hidden}", timeout=30_000)
        page.evaluate(SCROLLED)
        begun = page.evaluate(RIVAL)
        page.wait_for_function(f"begun => {RIVAL} !== begun", arg=begun, timeout=30_000)
        assert begun.split(" of ")[1].split()[0] == str(len(gallery.trace(RECORDED).tokens))
    for page in pages:
        page.wait_for_function(f"!{PLAYING}", timeout=60_000)
        assert_rests_at_the_longest_step(page)
        assert page.evaluate("scrolled") == 0
    low, phone = pages
    said = phone.locator("#token-view .ouro-tour-words")
    assert "from one forward pass" in said.inner_text(), "of the step at which it rests"
    bars, places = (
        phone.locator(name).bounding_box()
        for name in ("#token-view .ouro-bars", ".ouro-places > .tab-wrapper")
    )
    assert bars["y"] + bars["height"] <= places["y"], "the bars below it stay on the first screen"
    assert low.locator("#token-view .ouro-text").evaluate(WHOLE)
    assert "from one forward pass" in low.locator("#token-view .ouro-tour-words").inner_text()
    for page in pages:
        page.close()


def assert_rests_at_the_longest_step(page: Any) -> None:
    best = longest_step(gallery.trace(RECORDED)) + 1
    assert page.locator("#token-view .ouro-count").inner_text().startswith(f"step {best} of")


def test_where_motion_is_not_wanted_the_first_run_stands_at_its_best_step(page: Any) -> None:
    assert not page.evaluate(f"!!{PLAYING}")
    assert_rests_at_the_longest_step(page)
    assert page.locator(".ouro-sentence").first.inner_text().endswith(".")


TOO_SMALL = """() => [...document.querySelectorAll('button, input, select, summary, a')]
  .filter((node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
  // shown on demand, or in a sentence
  .filter((node) => !node.closest('.modebar, .ouro-skip, .ouro-term, p'))
  .map((node) => [node.textContent || node.ariaLabel, node.getBoundingClientRect()])
  .filter(([, { width, height }]) => Math.min(width, height) < 24)
  .map(([words, { width, height }]) => `${words}: ${width} x ${height}`)"""
"""What is too small for a finger or a shaking hand, as WCAG 2.2 has it."""


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_watch_is_one_screen_and_nothing_lies_beside_it(browser: Any, url: str, width: int) -> None:
    height = {1440: 900, 1024: 768, 390: 844}[width]
    context = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    page.locator("#generate").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    tabs = page.get_by_role("tab").locator("visible=true")
    assert tabs.all_inner_texts()[:5] == ["Watch", "Compare", "Learn", "Play", "Lab"]
    plain = "tour-words" if width == 390 else "rival-head"  # a phone has room for one of them
    view = ("asked", "sentence", "text", plain, "legend", "bars")
    inside = ["#generate", "#method-cards", *(f"#token-view .ouro-{name}" for name in view)]
    assert page.locator("#token-view .ouro-legend").evaluate(
        "legend => legend.scrollWidth <= legend.clientWidth"
    )
    text = page.locator("#token-view .ouro-text")
    assert text.evaluate(
        """text => {
          const step = text.querySelector("[data-stage]").getBoundingClientRect();
          return text.scrollTop === 0 && step.bottom <= text.getBoundingClientRect().bottom;
        }"""
    ), "the beginning of the text and the step at rest are visible together"
    if width > 390:
        assert text.evaluate(WHOLE), "all of the text is"
        inside += ["#token-view .ouro-timeline", "#token-view .ouro-curves", ".ouro-invitation"]
    inside += [f".ouro-chip:not([hidden]) >> nth={n}" for n in range(len(EXAMPLES))]
    places = page.locator(".ouro-places > .tab-wrapper").bounding_box()
    header, pair = (page.locator(name).bounding_box() for name in (".ouro-top", "#pair"))
    assert places and pair["height"] < header["height"], "the list is inside the header"
    models = page.locator("#models p", has_text="It is small: expect mistakes.")
    models.wait_for(timeout=120_000)  # the first page of a server waits for the models
    assert models.evaluate("words => words.scrollWidth <= words.clientWidth"), "nothing is cut"
    if width == 390:
        assert page.locator("#token-view .ouro-run").bounding_box()["width"] >= 350
        assert (places["y"], places["height"]) == (height - 52, 52)
        height -= 52  # it covers what lies below
    for selector in inside:
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] >= 0 and box["y"] + box["height"] <= height, selector
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, selector
    assert page.evaluate(TOO_SMALL) == []
    if width == 1440:
        tree = page.locator("#token-view .ouro-tree").bounding_box()
        assert tree["y"] + tree["height"] <= height, "the run rests with its tree in sight"
        page.set_viewport_size({"width": 1920, "height": 1080})
        run = page.locator("#token-view .ouro-run").bounding_box()
        assert run["width"] > 0.85 * 1920 and run["x"] + run["width"] < 1920
    context.close()


def test_at_200_percent_the_result_begins_on_the_first_screen(browser: Any, url: str) -> None:
    """A laptop of 1440 to 900 pixels, enlarged twofold."""
    page = browser.new_page(viewport={"width": 720, "height": 450})
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    page.locator("#generate").wait_for()
    title = page.locator("#token-view .ouro-title").bounding_box()
    places = page.locator(".ouro-places > .tab-wrapper").bounding_box()
    assert title["y"] + title["height"] < places["y"]
    open_tab(page, "Learn")
    starts = page.eval_on_selector_all(
        ".ouro-field a span",
        "names => names.map(name => [...name.getClientRects()].map(line => line.left))",
    )
    wrapped = [lines for lines in starts if len(lines) > 1]
    assert wrapped and all(len(set(lines)) == 1 for lines in wrapped), "lines begin at one place"
    page.close()


def wait_for_title(page: Any, words: str) -> None:
    """Wait until the run of a method is shown."""
    page.wait_for_function(
        "words => document.querySelector('#token-view .ouro-title').textContent.startsWith(words)",
        arg=words,
        timeout=60_000,
    )


def link(page: Any) -> str:
    """The address of the run that is shown, without the server's and the step."""
    address = page.locator(".ouro-save-address")
    if address.count():
        address.evaluate("node => { node.value = '' }")  # of the run before
    page.locator("#save-view [data-kind=link]").click()
    page.wait_for_function("document.querySelector('.ouro-save-address')?.value")
    return str(address.input_value().rpartition("/")[2].partition("&")[0])


def differs(page: Any, other: bool) -> None:
    """Wait until the inputs ask for another run than the one that is shown, or for this one."""
    marked = "document.querySelector('.ouro-watch').dataset.differs"
    page.wait_for_function(f"{marked} {'!==' if other else '==='} undefined")


def says(page: Any, selector: str, words: str) -> None:
    """Wait until an element has these words."""
    page.wait_for_function(f"document.querySelector('{selector}').textContent === '{words}'")


def conditions(page: Any) -> list[str]:
    return list(page.locator("#token-view .ouro-conditions li").all_inner_texts())


def button(page: Any) -> str:
    return str(page.locator("#generate").text_content())


def test_the_cards_play_recordings_of_one_prompt_and_one_model(page: Any) -> None:
    cards = page.get_by_role("radiogroup", name="Method").get_by_role("radio")
    checked = [card.get_attribute("aria-checked") for card in cards.all()]
    assert checked == ["false", "false", "false", "true"], "the default is all sources"
    prompt, titles = page.locator("#prompt textarea").input_value(), set()
    assert link(page) == f"#run={RECORDED}"
    taken = page.locator(".ouro-taken")
    for n, words in enumerate(("Plain", "Speculative", "Ouroboros", "Union")):
        cards.nth(n).click()
        wait_for_title(page, words)
        differs(page, False)
        method = ("autoregressive", "speculative", "ouroboros", "union")[n]
        assert link(page) == f"#run=java-{method}"
        settings = labels.changes(method, gallery.trace(f"java-{method}").hyperparameters)
        said = page.locator("#token-view .ouro-conditions").inner_text()
        assert ("recorded settings" in said) == bool(settings) == (n > 0)
        assert f"recorded settings: {settings}. A new run" in taken.text_content() or n == 0
        assert (taken.get_attribute("hidden") is None) == bool(settings), "the drawer agrees"
        titles.add(page.locator("#token-view .ouro-title").inner_text().split(" on ")[1].split()[0])
        assert page.locator("#prompt textarea").input_value() == prompt
        assert page.locator("#token-view .ouro-asked").inner_text() == prompt
        assert button(page) == "Generate"
    assert titles == {gallery.trace(RECORDED).target.split("/")[-1]}
    assert read_trace(saved(page)) == gallery.trace(RECORDED)
    cards.nth(3).focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.activeElement.getAttribute('aria-checked') === 'true'")
    wait_for_title(page, "Ouroboros")


def test_a_click_on_a_method_runs_the_prompt_in_the_box_and_changes_no_prompt(page: Any) -> None:
    """The three ways on which inputs and result used to disagree: on landing with a prompt that was
    never run, after a run of one's own, and with an example that was chosen during a run."""
    cards = page.locator(".ouro-methods .ouro-method")
    field, asked = page.locator("#prompt textarea"), page.locator("#token-view .ouro-asked")
    own = "Name a whale."
    ask(page, own, 16)
    for n, words in enumerate(("Plain", "Speculative")):
        before = ended(page)
        cards.nth(n).click()
        finish(page, before)
        wait_for_title(page, words)
        assert page.locator("#token-view .ouro-badge").inner_text() == "live", "no recorded run"
        assert asked.inner_text() == field.input_value() == own
    page.locator(".ouro-all").click()
    before = ended(page)
    name = page.get_by_text("Prompt lookup", exact=True)
    page.locator(".ouro-sheet .ouro-method", has=name).click()
    finish(page, before)
    wait_for_title(page, "Prompt lookup")
    assert not page.locator(".ouro-sheet").is_visible()
    assert asked.inner_text() == field.input_value() == own
    ask(page, LONG_ANSWER, 48)
    page.click("#generate")
    page.wait_for_function(f"{WRITTEN} > 32", timeout=120_000)
    chip = page.get_by_role("button", name=EXAMPLES[4].label, exact=True)
    assert chip.get_attribute("title") == f"Runs at once. {EXAMPLES[4].note}"
    chip.click()
    waits = f"{EXAMPLES[4].label} is in the box: press Generate when this run has ended."
    says(page, ".ouro-chips-note", waits)
    assert asked.inner_text() == LONG_ANSWER and page.locator("#stop").is_visible()
    page.click("#stop")
    page.get_by_text("Stopped after").first.wait_for()
    page.locator("#generate").wait_for()
    says(page, ".ouro-chips-note", "")
    before = ended(page)
    cards.nth(0).click()
    finish(page, before)
    assert asked.inner_text() == field.input_value() == EXAMPLES[4].prompt
    mine = page.get_by_role("button", name="My prompt", exact=True)
    page.wait_for_timeout(500)  # what follows a run is still asked for
    page.reload()
    mine.click()
    page.wait_for_function(f"{FIELD}.value === {json.dumps(LONG_ANSWER)}")
    page.wait_for_function(f"{WRITTEN} > 32", timeout=120_000)
    page.click("#stop")
    page.get_by_text("Stopped after").first.wait_for()


def test_no_click_takes_a_run_off_the_screen_that_is_being_written(page: Any) -> None:
    """A link, a card of this visit, a row of Compare, a recorded run: each says so where it is. A
    method says when it runs."""
    page.evaluate("location.hash = '#run=fibonacci-eagle3'")
    shown = page.locator(".ouro-visit-show")
    shown.wait_for()
    ask(page, LONG_ANSWER, 256)
    page.click("#generate")
    page.wait_for_function(f"{WRITTEN} > 32", timeout=120_000)
    status = page.locator("#token-view .ouro-status")
    box, text = status.bounding_box(), page.locator("#token-view .ouro-text").bounding_box()
    assert box["y"] + box["height"] < text["y"] < 900, "it is above the text, on the first screen"
    page.evaluate("location.hash = '#run=java-union'")
    refused = "Your run is under way, and stays: stop it in Watch"
    page.locator(".ouro-fault", has_text=refused).wait_for()
    shown.click()
    page.locator(".ouro-visit .ouro-refused", has_text=refused).wait_for()
    open_in_watch = page.get_by_role("button", name="Open in Watch").first
    open_tab(page, "Compare")
    open_in_watch.click()
    page.locator(".ouro-compare .ouro-refused", has_text=refused).wait_for()
    open_tab(page, "Recorded runs")
    page.locator(".ouro-gallery-open").first.click()
    page.locator(".ouro-gallery .ouro-refused", has_text=refused).wait_for()
    open_tab(page, "Watch")
    assert page.locator(".toast-body").count() == 0
    assert page.locator("#token-view .ouro-asked").inner_text() == LONG_ANSWER
    assert page.locator("#prompt textarea").input_value() == LONG_ANSWER
    assert page.evaluate(WRITTEN) > 32 and "a small model" in conditions(page)
    page.locator(".ouro-methods .ouro-method").nth(1).click()
    note = page.locator(".ouro-method-note")
    assert note.inner_text().startswith("Speculative decoding is chosen: press Generate when")
    page.click("#stop")
    page.get_by_text("Stopped after").first.wait_for()
    note.wait_for(state="hidden")
    page.locator(".ouro-refused").wait_for(state="detached")
    open_tab(page, "Compare")
    open_in_watch.click()
    page.locator("#token-view .ouro-badge", has_text="recorded on").wait_for()
    differs(page, False)
    assert link(page).removeprefix("#run=") in compare_view.recorded_names()
    assert page.get_by_role("button", name="My prompt", exact=True).is_visible()


def test_a_changed_setting_dims_the_run_and_the_button_names_it(page: Any) -> None:
    choose(page, "Speculative decoding")
    differs(page, True)
    assert button(page) == "Run Speculative decoding"
    choose(page, "Union of all sources")
    differs(page, False)
    set_number(page, "Tree size", 8)
    differs(page, True)
    assert button(page) == "Run with tree size 8"
    count = page.locator(".ouro-settings-count")
    assert count.inner_text() == "1 changed"
    set_number(page, "Top k", 5)
    says(page, "#generate", "Run with tree size 8")
    assert count.inner_text() == "1 changed", "it does nothing at temperature 0"
    set_number(page, "Top k", 0)
    set_number(page, "Temperature", 0.9)
    says(page, "#generate", "Run with 2 changes")
    assert count.inner_text() == "2 changed"
    ask(page, "Name a whale.", 16)
    generate(page)
    differs(page, False)
    assert "a small model" in conditions(page)
    changed = page.locator("#token-view .ouro-conditions [data-changed]").all_inner_texts()
    assert changed == ["temperature 0.9, seed 0", "at most 16 tokens"]
    page.reload()
    page.wait_for_selector("#token-view .ouro-token")
    says(page, ".ouro-settings-count", "3 changed")
    open_settings(page)
    page.locator(".ouro-reset").click()
    assert count.inner_text() == ""
    assert page.get_by_label("number input for Temperature").input_value() == "0"


def test_this_step_is_that_of_the_token_that_is_pointed_at_or_chosen(page: Any) -> None:
    note = page.locator("#token-view .ouro-tree-note")
    text = page.locator("#token-view .ouro-text")
    text.evaluate("text => text.scrollTop = 0")
    token = page.locator("#token-view .ouro-token[data-node]").first
    of = f"Step {int(token.get_attribute('data-step')) + 1}:"
    shown = note.inner_text()
    assert not shown.startswith(of), "the run rests at its best step"
    token.hover()
    assert note.inner_text().startswith(of)
    has(page.locator("#token-view .ouro-node[data-selected]"), 1)
    page.locator("#token-view .ouro-sentence").hover()
    assert note.inner_text() == shown
    token.click()
    page.locator("#token-view .ouro-sentence").hover()
    assert note.inner_text().startswith(of), "the run has moved to the step of the token"
    page.keyboard.press("Escape")
    assert note.inner_text().startswith(of)


def test_the_legend_counts_the_tokens_up_to_the_step_that_is_shown(page: Any) -> None:
    page.get_by_label("Last moment (End)").first.click()
    counts = page.locator("#token-view .ouro-legend .ouro-key b")
    height = page.locator("#token-view .ouro-legend").bounding_box()["height"]
    whole = len(tokens(page))
    assert sum(map(int, counts.all_text_contents())) == whole
    page.get_by_label("First moment (Home)").first.click()
    first = page.locator("#token-view .ouro-step[data-step='0'] .ouro-token").count()
    assert sum(map(int, counts.all_text_contents())) == first < whole
    assert "0" not in counts.locator("visible=true").all_inner_texts()
    assert page.locator("#token-view .ouro-legend").bounding_box()["height"] == height


def test_the_result_of_a_step_is_told_once_the_target_has_judged_it(page: Any) -> None:
    """Moment by moment: the guesses, the verdict, what is kept."""
    note = page.locator("#token-view .ouro-tree-note")
    stage = page.locator("#token-view .ouro-step[data-stage]")
    page.get_by_role("button", name="slow motion").first.click()
    page.get_by_label("First moment (Home)").first.click()
    told: list[tuple[str | None, str]] = []
    while not told or told[-1][0] != "commit":
        told.append((stage.get_attribute("data-stage"), note.inner_text()))
        if told[-1][0] == "verify":
            kept = stage.locator(".ouro-token[data-node]").count()
            counts = page.locator("#token-view .ouro-legend .ouro-key b").all_text_contents()
            assert sum(map(int, counts)) == kept > 0, "the legend has the accepted guesses"
        page.get_by_label("One on (→)").first.click()
    assert [name for name, _ in told][-3:] == ["draft", "verify", "commit"]
    for name, words in told:
        early = name == "draft"
        assert ("not verified yet" in words) == early != ("kept" in words or "adds" in words)


def test_no_line_is_cut_at_the_top_of_the_text_at_its_end_or_where_a_step_is_followed(
    browser: Any, url: str
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    text = page.locator("#token-view .ouro-text")
    page.wait_for_selector("#token-view .ouro-token")
    page.get_by_label("Last moment (End)").first.click()
    page.wait_for_function("document.querySelector('#token-view .ouro-text')?.scrollTop > 0")
    assert not text.evaluate(CUT), "at the end"
    bottom, edge = page.locator("#token-view .ouro-token").last.bounding_box(), text.bounding_box()
    assert bottom["y"] + bottom["height"] <= edge["y"] + edge["height"], "the last token is seen"
    page.get_by_label("First moment (Home)").first.click()
    cut = []
    for _ in range(18):
        page.get_by_label("One on (→)").first.click()
        cut.append(text.evaluate(CUT))
    assert text.evaluate("text => text.scrollTop") > 0
    assert not any(cut)
    context.close()


def test_a_live_answer_that_is_longer_than_its_box_ends_at_its_beginning_on_a_slow_phone(
    browser: Any, url: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    cdp = page.context.new_cdp_session(page)
    cdp.send("Emulation.setCPUThrottlingRate", {"rate": 8})  # steps come faster than frames
    page.goto(url)
    page.get_by_text("Ready:").wait_for(state="attached", timeout=60_000)
    page.locator("#prompt textarea").fill("Tell me a long story about a fox and a river.")
    page.locator("#generate").click()
    page.wait_for_selector(f'{DONE} .ouro-badge:has-text("live")', timeout=60_000)
    top, height, shown = page.locator("#token-view .ouro-text").evaluate(
        "text => [text.scrollTop, text.scrollHeight, text.clientHeight]"
    )
    assert height > 2 * shown, "the answer is long"
    assert top == 0
    page.close()


def test_a_step_without_a_guess_says_so_in_place_of_a_tree(page: Any) -> None:
    page.locator(".ouro-methods [role=radio]").first.click()  # plain decoding guesses nothing
    wait_for_title(page, "Plain")
    tree = page.locator("#token-view .ouro-tree")
    assert tree.inner_text() == "Nothing was guessed in this step."
    assert tree.locator("svg").count() == 0


def test_what_takes_the_keyboard_has_a_ring_of_the_texts_colour(page: Any) -> None:
    ink = "getComputedStyle(document.body).getPropertyValue('--body-text-color').trim()"
    for selector in ("#prompt textarea", "#pair input"):
        field = page.locator(selector)
        field.focus()
        style, width, same = field.evaluate(
            f"""field => {{
              const {{ outlineStyle, outlineWidth, outlineColor }} = getComputedStyle(field);
              const probe = document.createElement("i");
              probe.style.color = {ink};
              document.body.append(probe);
              return [outlineStyle, outlineWidth, outlineColor === getComputedStyle(probe).color];
            }}"""
        )
        assert (style, width, same) == ("solid", "2px", True), selector


def test_details_show_one_chart_at_a_time(page: Any) -> None:
    assert page.evaluate(SHOWN) == 0, "nothing before it is asked for"
    page.locator(".ouro-details summary").click()
    page.wait_for_function(f"{SHOWN} === 1")
    buttons = page.locator(".ouro-pick button")
    names = ["Another machine", *(chart.label for chart in MORE_CHARTS)]
    assert set(buttons.locator("visible=true").all_inner_texts()) <= set(names)
    page.get_by_role("button", name="Speedup", exact=True).click()
    assert page.locator("#chart-speedup").is_visible()
    page.wait_for_selector("#chart-speedup .js-line")
    page.wait_for_function("document.querySelector('#chart-speedup .main-svg').clientWidth > 800")
    has(page.locator("#chart-speedup .modebar-btn"), 2)  # the toolbar only saves
    page.set_viewport_size({"width": 390, "height": 844})
    tops = [node.bounding_box()["y"] for node in buttons.locator("visible=true").all()]
    assert len(tops) > 3 and len(set(tops)) == 1, "they are one line, which scrolls"
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_rejected_guess_is_a_mark_until_all_guesses_are_shown(page: Any) -> None:
    mark, key = (
        page.locator(f"#token-view .ouro-{name}").first for name in ("rejected", "key-mark")
    )
    narrow = mark.bounding_box()["width"]
    assert narrow < 7
    assert key.inner_text().startswith("rejected guesses")
    point_at(page, mark)
    assert "rejected" in page.locator("#token-view .ouro-card").inner_text()
    page.get_by_role("button", name="show guesses").first.click()
    assert mark.bounding_box()["width"] > narrow
    assert not key.is_visible()
