"""What surrounds the words of a lesson: rings, cards, the target's answers, addresses and keys. The
oracle is what a browser shows of the static site, and the recorded steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from tests.visitor import faultless
from visualize.gallery import runs as gallery
from visualize.learn import lessons

pytestmark = pytest.mark.browser

CHAPTERS = {chapter["id"]: chapter for chapter in lessons.chapters()}
NUMBERS = {name: number for number, name in enumerate(CHAPTERS)}
BOX = "n => { const b = n.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    """A reader at a desk; nothing fails in the page's scripts."""
    with faultless(browser, (1440, 900), reduced_motion="reduce", offline=True) as page:
        yield page


def read(page: Any, site_url: str, chapter: str, stop: int) -> dict[str, Any]:
    """Open a stop, counted from 1, by its address; what it shows."""
    page.goto(f"{site_url}#{chapter}/{stop}")
    page.reload()  # an address that differs only behind the # loads nothing
    page.wait_for_selector(f'.ouro-learn[data-at="{NUMBERS[chapter]}.{stop - 1}"]')
    return dict(CHAPTERS[chapter]["stops"][stop - 1])


def in_signs(text: str) -> str:
    text = text.replace("\n", "↵").replace("\t", "⇥")
    return re.sub("^ | $", "␣", text)


BARE = """n => {
  const words = n.cloneNode(true);
  for (const node of words.querySelectorAll('[translate=no]')) node.remove();
  return words.textContent;
}"""
"""The text that a browser may translate."""


def stop_with(chapter: str, part: str) -> int:
    """The first stop of a chapter whose marked element has something in its name."""
    stops = CHAPTERS[chapter]["stops"]
    return next(n for n, stop in enumerate(stops, 1) if part in stop.get("spot", ""))


def test_the_targets_answers_are_drawn_below_the_guesses(reader: Any, site_url: str) -> None:
    """Accepted guesses have their equal below them; the bonus and the correction are drawn."""
    for chapter, stop in (
        ("guess", stop_with("guess", "ouro-answer")),
        ("reject", stop_with("reject", "correction")),
    ):
        told = read(reader, site_url, chapter, stop)
        step = gallery.trace(CHAPTERS[chapter]["run"]).steps[told["at"]["step"]]
        pieces = gallery.trace(CHAPTERS[chapter]["run"]).pieces
        answers = reader.locator(".ouro-learn-run .ouro-answer")
        drawn = answers.locator("text").all_text_contents()
        assert drawn == [in_signs(pieces[token]) for token in step.tokens]
        kinds = answers.evaluate_all("all => all.map(n => n.dataset.kind)")
        assert kinds == ["equal"] * len(step.path) + [step.kind]
        for n, node in enumerate(step.path):
            guess = reader.locator(f'.ouro-tree [data-node="{node}"] rect').evaluate(BOX)
            answer = answers.nth(n).locator("rect").evaluate(BOX)
            assert (answer[0], answer[2]) == (guess[0], guess[2]) and answer[1] > guess[3]
        assert answers.first.is_visible()
        note = reader.locator(".ouro-learn-run .ouro-tree-note").inner_text()
        assert f"The target's pass has {step.width} rows;" in note, "the word of the lessons"
    read(reader, site_url, "guess", 1)
    assert not reader.locator(".ouro-answer").first.is_visible(), "nothing was checked yet"


COVERED = """() => {
  const lines = [...document.querySelectorAll('.ouro-learn-run .ouro-answer-line')];
  const nodes = [...document.querySelectorAll('.ouro-learn-run .ouro-node')];
  const after = Node.DOCUMENT_POSITION_FOLLOWING;
  const under = lines.every((line) => nodes.every((n) => line.compareDocumentPosition(n) & after));
  const box = (node) => node.getBoundingClientRect();
  const crossed = nodes.filter((node) => lines.some((line) => {
    const [a, b] = [box(node.querySelector('rect')), box(line)];
    return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  }));
  const fills = crossed.map((node) => getComputedStyle(node.querySelector('rect')).fill);
  return [under, fills];
}"""


def test_the_lines_to_the_targets_answers_cross_no_letter(reader: Any, site_url: str) -> None:
    """They come before the boxes that they cross, and those are opaque."""
    stops = CHAPTERS["family"]["stops"]
    trees = [n for n, stop in enumerate(stops, 1) if stop.get("spot") == ".ouro-tree"]
    read(reader, site_url, "family", trees[-1])
    under, fills = reader.evaluate(COVERED)
    assert under and len(fills) > 1
    assert not [fill for fill in fills if "/" in fill or "rgba" in fill or fill == "none"]


def test_the_lookahead_window_is_one_picture(reader: Any, site_url: str) -> None:
    """It begins where the words are: at the first pass, at the first n-gram of the text, at the
    first full window."""
    data = CHAPTERS["phrases"]["figures"]["window"]
    full = [sum(map(len, one["levels"])) for one in data["passes"]].index(
        data["columns"] * (data["gram"] - 1)
    )
    whole = [bool(one["whole"]) for one in data["passes"]].index(True)
    for stop, at in ((1, 0), (3, whole), (4, whole), (5, full)):
        assert read(reader, site_url, "phrases", stop)["figure"] == "window"
        assert reader.inner_text(".ouro-picture-said").startswith(f"Pass {at + 1}:"), stop


def test_a_batchs_slider_begins_at_the_answers_of_the_words(reader: Any, site_url: str) -> None:
    words = " ".join(read(reader, site_url, "batches", 1)["words"])
    slider = reader.locator('.ouro-batch input[name="batch"]')
    assert f" {slider.input_value()} answers " in words
    assert " 0." in reader.inner_text(".ouro-batch .ouro-picture-said"), (
        "slower than plain decoding"
    )


def test_sliders_stand_where_a_stop_puts_them(reader: Any, site_url: str) -> None:
    moved = 0
    for chapter, lesson in CHAPTERS.items():
        for number, stop in enumerate(lesson["stops"], 1):
            if "sliders" in stop:
                read(reader, site_url, chapter, number)
                for name, value in stop["sliders"].items():
                    slider = reader.locator(
                        f'.ouro-learn-stage input[name="{name}"] >> visible=true'
                    )
                    assert float(slider.input_value()) == value, (chapter, number, name)
                    moved += 1
    assert moved > 15


def test_tokens_behind_each_other_have_one_ring(reader: Any, site_url: str) -> None:
    told = read(reader, site_url, "guess", stop_with("guess", ".ouro-token"))
    ends = reader.locator(".ouro-text [data-spot]").evaluate_all(
        "all => all.map(n => n.dataset.spot)"
    )
    tokens = gallery.trace(CHAPTERS["guess"]["run"]).steps[told["at"]["step"]].tokens
    assert ends == ["first", *[""] * (len(tokens) - 2), "last"]


@pytest.mark.slow
def test_a_card_covers_neither_text_nor_tree(reader: Any, site_url: str) -> None:
    for chapter, told in CHAPTERS.items():
        for stop in (n for n, one in enumerate(told["stops"], 1) if "card" in one):
            read(reader, site_url, chapter, stop)
            left, top, right, bottom = reader.locator(".ouro-card").evaluate(BOX)
            for part in ("text", "tree", "tree-note", "timeline", "legend"):
                box = reader.locator(f".ouro-learn-run .ouro-{part}").evaluate(BOX)
                apart = box[2] <= left or right <= box[0] or box[3] <= top or bottom <= box[1]
                assert apart, (chapter, stop, part)
            number = re.search(r"step (\d+)", reader.inner_text(".ouro-count"))
            jump = reader.locator(".ouro-jump")
            if jump.count():
                assert number is not None and f"step {number[1]}," not in jump.inner_text()


LOW = [
    (name, number)
    for name, chapter in CHAPTERS.items()
    for number, stop in enumerate(chapter["stops"], 1)
    if stop.get("spot") in (".ouro-numbers", ".ouro-tree") or stop.get("figure") == "residual"
]
"""Stops that mark what is low on the page, or have a table below their words."""


def test_a_stop_begins_with_the_menu_in_sight(reader: Any, site_url: str) -> None:
    """However far the one before was scrolled; what is marked and the buttons are in sight, too."""
    assert len(LOW) > 8
    for chapter, stop in LOW:
        read(reader, site_url, chapter, stop)
        for part in (".ouro-site-nav", ".ouro-learn-rail", ".ouro-learn-next", "[data-spot]"):
            _, top, _, bottom = reader.locator(f"{part} >> visible=true").first.evaluate(BOX)
            assert top >= 0 and bottom <= 900, (chapter, stop, part)
    read(reader, site_url, "unchanged", 5)
    reader.mouse.wheel(0, 400)
    reader.wait_for_function("scrollY > 0")
    reader.locator(".ouro-learn-next").click()
    reader.wait_for_selector('.ouro-learn[data-at="3.5"]')
    assert reader.evaluate("scrollY") == 0


def test_a_run_in_a_lesson_plays_at_most_four_steps_a_second(reader: Any, site_url: str) -> None:
    """The recorded run itself lasts less than a second."""
    read(reader, site_url, "guess", 1)
    assert len(gallery.trace(CHAPTERS["guess"]["run"]).steps) > 20
    reader.get_by_role("button", name="Play (Space)").click()
    reader.wait_for_timeout(1500)
    step = re.search(r"step (\d+) of", reader.inner_text(".ouro-count"))
    assert step is not None and 2 <= int(step[1]) <= 10


def test_a_slider_over_draft_lengths_shows_another_recorded_run(reader: Any, site_url: str) -> None:
    """Text, steps and speedup are those of the recorded run of this length."""
    stops = CHAPTERS["guess"]["stops"]
    read(reader, site_url, "guess", next(n for n, one in enumerate(stops, 1) if "aside" in one))
    slider, runs = reader.locator(".ouro-grid input"), gallery.runs()
    assert slider.input_value() == "0"
    for gamma in (2, 4, 6, 8):
        slider.press("ArrowRight")
        name = f"palindrome-speculative-{gamma}"
        trace = gallery.trace(name)
        assert runs[name]["knobs"] == {"gamma": gamma}
        reader.locator(".ouro-count", has_text=f"step {len(trace.steps)} of").wait_for()
        assert reader.locator(".ouro-grid output").inner_text() == str(gamma)
        assert reader.locator(".ouro-learn-run .ouro-step").count() == len(trace.steps)
        speedup = reader.locator(".ouro-learn-run .ouro-tile[data-spot]").first.inner_text()
        assert f"{gallery.facts(name)['speedup']:.2f}×" in speedup


def test_a_stop_has_an_address_and_keys_turn_it(reader: Any, site_url: str) -> None:
    """A reload stays, the browser's Back leads to the chapter before, a chapter opens where it was
    left."""
    read(reader, site_url, "guess", 2)
    reader.keyboard.press("ArrowRight")
    reader.wait_for_function("location.hash === '#guess/3'")
    reader.reload()
    reader.wait_for_selector('.ouro-learn[data-at="1.2"]')
    reader.locator(".ouro-learn-chapter").nth(2).click()
    reader.wait_for_function("location.hash === '#reject'")
    reader.go_back()
    reader.wait_for_selector('.ouro-learn[data-at="1.2"]')
    reader.go_forward()
    reader.wait_for_selector('.ouro-learn[data-at="2.0"]')
    reader.locator(".ouro-learn-chapter").nth(1).click()
    reader.wait_for_selector('.ouro-learn[data-at="1.2"]')
    reader.evaluate("document.activeElement.blur()")  # on the rail the keys lead along it
    reader.keyboard.press("ArrowLeft")
    reader.wait_for_selector('.ouro-learn[data-at="1.1"]')


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    yield page
    page.close()


def with_figure(chapter: str, figure: str) -> int:
    """The first stop of a chapter, counted from 1, that has a picture."""
    stops = CHAPTERS[chapter]["stops"]
    return next(n for n, stop in enumerate(stops, 1) if stop.get("figure") == figure)


def test_what_the_words_speak_of_is_above_their_sheet_on_a_phone(phone: Any, site_url: str) -> None:
    """Rows of the mask are level with their tokens; sliders, bars and results are in view."""
    read(phone, site_url, "suffixes", with_figure("suffixes", "mask"))
    nodes = phone.locator(".ouro-mask-node")
    count = nodes.count()
    for n in range(count):
        node = nodes.nth(n).evaluate(BOX)
        cell = phone.locator(".ouro-mask-cell").nth(n * count).evaluate(BOX)
        assert abs(node[1] + node[3] - cell[1] - cell[3]) < 4 and node[2] <= cell[0]
    below = [(".ouro-mask-matrix", "suffixes", "mask")]
    below += [(f".ouro-theory-{selector}", "pays", "theory") for selector in ("sliders", "tokens")]
    dice = (".ouro-dice .ouro-ranges", ".ouro-dice-bars")
    below += [(selector, "unchanged", "dice") for selector in dice]
    for selector, chapter, figure in below:
        read(phone, site_url, chapter, with_figure(chapter, figure))
        bottom = phone.locator(f".ouro-learn {selector}").first.evaluate(BOX)[3]
        assert bottom <= phone.locator(".ouro-learn-text").evaluate(BOX)[1], (selector, bottom)
    read(phone, site_url, "pays", with_figure("pays", "theory"))
    said, sheet = (
        phone.locator(selector).evaluate(BOX)
        for selector in (".ouro-theory-said", ".ouro-learn-text")
    )
    assert said[1] + 90 <= sheet[1], "its first sentence"
    icon = phone.locator('link[rel="icon"]').get_attribute("href")
    assert icon == "logo.svg" and Path(unquote(urlparse(site_url).path)).with_name(icon).is_file()


LINKS = [
    (chapter["id"], number)
    for chapter in CHAPTERS.values()
    for number, stop in enumerate(chapter["stops"], 1)
    if any("](" in words for words in stop["words"])
]


TILES = ("speedup", "length", "saved")
"""Parts that are numbers themselves."""


@pytest.mark.slow
def test_a_linked_word_lights_its_part_of_the_picture_and_the_reverse(
    reader: Any, site_url: str
) -> None:
    """By the pointer and by the keyboard; numbers are not to be translated."""
    linked = {chapter for chapter, _ in LINKS}
    assert linked == set(CHAPTERS) and len(LINKS) > 40
    for chapter, stop in LINKS:
        read(reader, site_url, chapter, stop)
        links = reader.locator(".ouro-learn-words .ouro-link")
        for n in range(links.count()):
            links.nth(n).focus()
            lit = reader.locator(".ouro-learn [data-linked]:not(.ouro-link)").locator(
                "visible=true"
            )
            word = links.nth(n).inner_text()
            assert lit.count(), (chapter, stop, word)
            if links.nth(n).get_attribute("data-part") in TILES:
                numbers = re.findall(r"[\d.]+", word)
                lit_texts = lit.all_inner_texts()
                assert all(any(n in text for text in lit_texts) for n in numbers), (
                    chapter,
                    stop,
                    word,
                )
        bare = reader.locator(".ouro-learn-words").evaluate(BARE)
        assert not re.search(r"\d", bare), (chapter, stop, bare)
    read(reader, site_url, "reject", 3)
    reader.locator('.ouro-answer[data-kind="correction"] text').hover()
    word = reader.locator(".ouro-link[data-linked]")
    assert word.inner_text() == "correction"


QUOTED = {"mask": "tokens", "ids": "rows", "models": "rows", "residual": "rows"}
"""Pictures with tokens or names in their words, and where their data have them."""


@pytest.mark.slow
def test_a_browser_translates_no_token_of_a_picture(reader: Any, site_url: str) -> None:
    """In what is left without the marked parts stand no signs of blanks and line ends, and no token
    that is made of letters."""
    seen = set()
    for chapter, told in CHAPTERS.items():
        for number, stop in enumerate(told["stops"], 1):
            names = {stop.get("figure"), stop.get("aside")} - {None}
            if not names:
                continue
            read(reader, site_url, chapter, number)
            boxes = [reader.locator(f".ouro-learn-{part}") for part in ("figure", "residual")]
            bare = " ".join(box.evaluate(BARE) for box in boxes)
            assert not re.search("[␣↵⇥]", bare), (chapter, number, bare)
            pictures = told.get("figures", {}) | {"residual": told.get("residual", {})}
            texts = [
                row if isinstance(row, str) else row["text" if isinstance(row, dict) else 0]
                for name in names & set(QUOTED)
                for row in pictures[name][QUOTED[name]]
            ]
            words = {text.strip(" ‘’␣") for text in texts if re.search(r"[^\W\d_]{2}", text)}
            words -= set(re.findall(r"\w+", pictures["residual"].get("words", "")))  # its key
            seen |= names & set(QUOTED) if words else set()
            left = [word for word in words if re.search(rf"\b{re.escape(word)}\b", bare)]
            assert not left, (chapter, number, left)
    assert seen == set(QUOTED)
    asked = len(CHAPTERS["guess"]["stops"])
    reader.goto(f"{site_url}#guess/{asked + 1}")
    reader.reload()
    reader.locator(".ouro-learn-guess").first.wait_for()
    bare = reader.locator(".ouro-learn-answer").evaluate(BARE)
    assert not re.search("[␣↵⇥]", bare), bare


def test_no_picture_and_no_style_has_words_that_a_browser_cannot_translate() -> None:
    """Style sheets add signs and no words; pictures are drawn, and have no images."""
    folder = Path(lessons.__file__).parent.parent
    for file in (folder / "learn").glob("*.css"):
        for text in re.findall(r'content: "([^"]*)"', file.read_text(encoding="utf-8")):
            assert not re.search(r"[A-Za-z]{2}", text.replace("\\", " ")), (file.name, text)
    for file in (folder / "learn").glob("*.js"):
        assert not re.search(r"<image|<canvas|toDataURL|\.png", file.read_text(encoding="utf-8"))


def test_a_link_per_student_keeps_the_answers_in_the_browser_and_marks_them(
    browser: Any, site_url: str
) -> None:
    """After a reload the marks are there, and under another name there are none."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
    page = context.new_page()
    chapter = "reject"
    question = CHAPTERS[chapter]["question"]
    stop = len(CHAPTERS[chapter]["stops"]) + 1

    def marks(student: str) -> str:
        page.goto(f"{site_url}?student={student}#{list(CHAPTERS)[-1]}/99")
        page.wait_for_selector(f'.ouro-learn[data-at^="{len(CHAPTERS) - 1}."]')
        page.locator(".ouro-learn-next").click()
        onward = page.locator(".ouro-learn-onward")
        assert onward.evaluate(BOX)[3] <= 768, "all marks are in sight"
        return str(onward.inner_text())

    page.goto(f"{site_url}?student=Ada#{chapter}/{stop}")
    page.locator(".ouro-learn-option").nth(question["answer"]).click()
    told = marks("Ada")
    assert f"✓ {CHAPTERS[chapter]['title']}" in told and told.count("–") >= len(CHAPTERS) - 1
    assert "Ada. Questions at the ends of the chapters: 1 of" in told and "1 right" in told
    assert "✓" not in marks("Bob")
    context.close()
