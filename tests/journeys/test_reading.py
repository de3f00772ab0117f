"""Reading the page: the text keeps its lines, a card stands beside its token, the controls keep
their places, in any colours.

On the page, in a replay that stands alone and in the static lessons, in windows of a desk and of a
phone.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Trace
from tests.journeys.test_first_paint import SHIFTS
from tests.visitor import (
    fade,
    faultless,
    has,
    open_file,
    open_settings,
    open_tab,
    point_at,
    settle,
)
from visualize.deploy import static_site
from visualize.gallery import runs as gallery
from visualize.learn import lessons as learn

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

DESK, PHONE = (1440, 900), (390, 844)
BREAKS = ["\n", "\t", "\r\n", "\u2028"]
"""What the rejected tokens of a run are made to be, by their number in the tree, and how each is
drawn."""
SIGNS = ["↵", "⇥", r"\r↵", "↵"]


@pytest.fixture(scope="module")
def broken() -> Trace:
    """A recorded run in which every rejected token is made of line breaks and tabs; what was kept
    is untouched."""
    data = json.loads(gallery.trace("fibonacci-speculative").to_json())
    for step in data["steps"]:
        for node in range(1, len(step["tree"]["tokens"])):
            if node not in step["path"]:
                data["pieces"][str(step["tree"]["tokens"][node])] = BREAKS[node - 1]
    return read_trace(json.dumps(data))


@pytest.fixture(scope="module")
def replay(broken: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a saved replay."""
    file = tmp_path_factory.mktemp("replay") / "replay.html"
    page = static_site.replay_html(broken, gallery.baseline("fibonacci-speculative"))
    file.write_text(page, encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    """A visitor in whose page no script fails."""
    with faultless(browser, DESK, reduced_motion="reduce") as visitor:
        visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield visitor


def resize(page: Any, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})


def open_wide_tab(page: Any, name: str) -> None:
    """A tab in a wide window, where all of them have room."""
    resize(page, DESK)
    tab = page.get_by_role("tab", name=name, exact=True).locator("visible=true")
    tab.wait_for()
    tab.click()
    settle(page)


def open_replay(page: Any, address: str) -> None:
    """Open a replay, whose modules run a moment after the page has loaded."""
    page.goto(address)
    page.locator(".ouro-run .ouro-text .ouro-token").first.wait_for()


def open_run(page: Any, url: str, trace: Trace, folder: Path) -> None:
    """The page, with a run from a file in its view."""
    page.goto(url)
    page.wait_for_selector("#token-view .ouro-token")
    open_tab(page, "Recorded runs")
    file = folder / "run.json"
    file.write_text(trace.to_json(), encoding="utf-8")
    open_file(page, file)
    has(page.locator("#token-view .ouro-token"), len(trace.tokens))
    page.locator("#token-view .ouro-text").wait_for()


LINES = """() => {
  const text = document.querySelector('.ouro-run .ouro-text'), high = parseFloat(getComputedStyle(text).lineHeight);
  const top = text.querySelector('.ouro-token').getClientRects()[0].top;
  return [...text.querySelectorAll('.ouro-token')].map((node) => {
    const box = node.getClientRects()[0];
    return [node.textContent, Math.round((box.top - top) / high)];
  });
}"""


@pytest.mark.parametrize("place", ["page", "replay"])
def test_the_kept_text_has_its_own_lines_whatever_was_rejected(
    reader: Any, request: Any, broken: Trace, tmp_path: Path, place: str
) -> None:
    """The oracle is the final text: a token stands as many lines down as there are line breaks
    before it."""
    if place == "page":
        open_run(reader, request.getfixturevalue("url"), broken, tmp_path)
    else:
        open_replay(reader, request.getfixturevalue("replay"))
    answer, wanted = "", []
    for text in broken.texts:
        wanted.append([text, answer.count("\n")])
        answer += text
    rejected = reader.locator(".ouro-run .ouro-text .ouro-rejected")
    assert rejected.count() > 20
    assert reader.evaluate(LINES) == wanted
    drawn = rejected.evaluate_all("nodes => nodes.map((n) => [n.textContent, n.dataset.text])")
    assert {tuple(one) for one in drawn} == set(zip(SIGNS, BREAKS, strict=True))
    text = "document.querySelector('.ouro-run .ouro-text')"
    reader.evaluate(f"getSelection().selectAllChildren({text})")
    reader.keyboard.press("Control+c")
    copied = reader.evaluate("navigator.clipboard.readText()").rstrip("\n")
    assert copied == answer.rstrip("\n"), "without the question that is folded above the text"
    point_at(reader, rejected.first)
    quote = reader.locator(".ouro-card .ouro-quote").first.inner_text()
    assert quote == rejected.first.text_content()
    reader.keyboard.press("Escape")
    reader.get_by_role("button", name="show guesses").first.click()
    assert rejected.nth(1).is_visible()


CARD = """() => {
  const card = document.querySelector('.ouro-run .ouro-card'), under = document.querySelector('[data-open]');
  const [one, box] = [card, under].map((node) => node.getBoundingClientRect());
  const apart = box.bottom <= one.top || box.top >= one.bottom || box.right <= one.left || box.left >= one.right;
  return {
    apart, inside: one.top >= 0 && one.left >= 0 && one.bottom <= innerHeight && one.right <= innerWidth,
    whole: card.scrollHeight <= card.clientHeight || getComputedStyle(card).overflowY === 'auto',
    token: box.top >= -1 && box.bottom <= innerHeight + 1, high: one.height,
  };
}"""
VISIBLE = """() => [...document.querySelectorAll('.ouro-run .ouro-token')]
  .filter((node) => node.checkVisibility({visibilityProperty: true})).map((node) => node.dataset.index)"""


@pytest.mark.parametrize("size", [DESK, PHONE, (1440, 420)], ids=["desk", "phone", "low"])
def test_a_card_stands_beside_its_token_inside_the_window_and_closing_it_keeps_text_and_step(
    reader: Any, replay: str, size: tuple[int, int]
) -> None:
    """For tokens all over the text, wherever in the window they stand: first, last, rejected, at
    the upper and the lower edge."""
    resize(reader, size)
    open_replay(reader, replay)
    names = ("card", "tree-note", "count")
    card, tree, count = (reader.locator(f".ouro-{name}").first for name in names)
    before = reader.evaluate(VISIBLE)
    all_tokens = reader.locator(".ouro-run .ouro-text :is(.ouro-token, .ouro-rejected)")
    number = all_tokens.count()
    middle = [(number // 2, block) for block in ("end", "start")]
    for which, block in [(0, "start"), (0, "end"), *middle, (number - 1, "end"), (9, "center")]:
        token = all_tokens.nth(which)
        token.evaluate("(node, block) => node.scrollIntoView({block})", block)
        token.evaluate("node => node.click()")
        found = reader.evaluate(CARD)
        beside = [found[name] for name in ("apart", "inside", "whole", "token")]
        assert all(beside), (which, block, found)
        assert found["high"] > 100, "there is something to be read"
        assert reader.evaluate(VISIBLE) == before, "the text stays as it is"
        step = int(str(token.get_attribute("data-step")))
        assert count.inner_text().startswith(f"step {step + 1} of"), "the click goes there"
        assert tree.inner_text().startswith(f"Step {step + 1}:"), "the tree is that of its step"
        close = (
            lambda: reader.keyboard.press("Escape"),
            lambda: reader.locator("h1").evaluate("n => n.click()"),
            lambda: reader.get_by_role("button", name="Close (Escape)").click(),
        )
        close[which % 3]()
        assert card.is_hidden() and reader.locator("[data-open]").count() == 0
        assert reader.evaluate(VISIBLE) == before
        assert tree.inner_text().startswith(f"Step {step + 1}:"), "it stays there"


def test_on_a_phone_the_card_is_a_sheet_from_below(reader: Any, replay: str) -> None:
    resize(reader, PHONE)
    open_replay(reader, replay)
    reader.locator(".ouro-token").nth(40).click()
    box = reader.locator(".ouro-card").bounding_box()
    assert (box["x"], box["width"], box["y"] + box["height"]) == (0, *PHONE)
    close = reader.get_by_role("button", name="Close (Escape)")
    sides = [close.bounding_box()[side] for side in ("width", "height")]
    assert min(sides) >= 44, "a finger can press it"
    close.click()
    assert reader.locator(".ouro-card").is_hidden()


def test_a_replay_is_seen_when_it_is_filled(reader: Any, replay: str) -> None:
    reader.add_init_script(SHIFTS)
    open_replay(reader, replay)
    reader.locator(".ouro-bars .main-svg").first.wait_for()
    settle(reader)
    assert reader.evaluate("Number(document.documentElement.dataset.moved || 0)") < 0.01


def test_a_card_opens_for_a_pointer_that_moves_not_for_a_text_that_moves_under_it(
    reader: Any, replay: str
) -> None:
    open_replay(reader, replay)
    card, two = reader.locator(".ouro-card"), reader.locator(".ouro-token").nth(18)
    reader.evaluate("document.fonts.ready.then(() => 0)")
    box = two.bounding_box()
    reader.mouse.move(box["x"] + 3, box["y"] + 3)
    assert "position 19" in card.inner_text()
    reader.reload()
    reader.wait_for_selector(".ouro-token")
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    for _ in range(3):
        reader.evaluate(frames)
    assert card.is_hidden(), "not where it stood when the page came"
    reader.mouse.move(box["x"] + 4, box["y"] + 3)
    assert "position 19" in card.inner_text()
    reader.evaluate("document.body.style.minHeight = '300vh'")
    for _ in range(2):
        with reader.expect_event("console", lambda message: message.text == "scrolled"):
            reader.evaluate("""() => {
              addEventListener('scroll', () => requestAnimationFrame(() => requestAnimationFrame(() => console.log('scrolled'))),
                {once: true});
              scrollBy(0, 52);
            }""")
        assert card.is_hidden(), "another token has come under it"
    under = """([x, y]) => {
      for (let n = 0; n < 300; n++) {
        if (document.elementFromPoint(x, y).closest('.ouro-token')) return true;
        scrollBy(0, -1);
      }
    }"""
    assert reader.evaluate(under, [box["x"] + 4, box["y"] + 3])
    reader.mouse.move(box["x"] + 6, box["y"] + 3)
    assert card.is_visible()


POSITIONS = """(view) => {
  const line = view.querySelector('.ouro-timeline');
  const slow = line.querySelector('.ouro-slow');
  const [first, , , next] = line.querySelectorAll('.ouro-step-button');
  const place = (node) => {
    const box = node.getBoundingClientRect();
    return [box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round).join(' ');
  };
  const found = new Set(), labels = new Set();
  for (const speed of ['plain', 'slow']) {
    if (speed === 'slow') slow.click();
    first.click();
    for (let before = ''; before !== line.querySelector('.ouro-count').textContent; next.click()) {
      before = line.querySelector('.ouro-count').textContent;
      labels.add(line.querySelector('.ouro-count').textContent);
      found.add([...line.querySelectorAll('button, input, select')].map(place).join(', '));
    }
  }
  return [[...found], labels.size];
}"""


def assert_controls_stay(
    page: Any, view: str, moments: int, sizes: Sequence[tuple[int, int]] = (DESK, PHONE)
) -> None:
    """Whatever the label says, at all moments, in every granularity."""
    for size in sizes:
        resize(page, size)
        page.locator(view).locator(".ouro-timeline").scroll_into_view_if_needed()
        found, labels = page.locator(view).evaluate(POSITIONS)
        assert len(found) == 1, (view, size, found[:3])
        assert labels >= moments, "the label was another one at every moment"


def moments(name: str) -> int:
    """How many different labels a replay by guess has at least: each token and each
    commit."""
    return len(gallery.trace(name).tokens)


def test_the_controls_stay_where_they_are_whatever_the_label_says(
    reader: Any, url: str, replay: str, tmp_path: Path
) -> None:
    open_replay(reader, replay)
    assert_controls_stay(reader, "#run", moments("fibonacci-speculative"))
    open_run(reader, url, gallery.trace("library-union"), tmp_path)
    assert_controls_stay(reader, "#token-view", moments("library-union"))
    open_wide_tab(reader, "Learn")
    reader.wait_for_selector("#learn-view .ouro-learn[data-at]")
    reader.locator(".ouro-learn-chapter").nth(1).click()
    reader.wait_for_selector("#learn-view .ouro-rejected", state="attached")
    assert_controls_stay(reader, "#learn-view", moments("fibonacci-speculative"), [DESK])


TOGETHER = """() => {
  const learn = document.querySelector('.ouro-learn'), part = (name) => learn.querySelector('.ouro-learn-' + name);
  const box = (node) => { const {left, top, right, bottom} = node.getBoundingClientRect(); return {left, top, right, bottom}; };
  const seen = (one) => one.top >= 0 && one.left >= 0 && one.bottom <= innerHeight + 0.5 && one.right <= innerWidth + 0.5;
  const front = (node, x, y) => {
    const at = document.elementFromPoint(x, y);
    return !!at && (node.contains(at) || at.contains(node));
  };
  const begins = (node) => {
    const {left, top, width, height} = [...node.getClientRects()].find((one) => one.width) || node.getBoundingClientRect();
    const x = left + Math.min(width / 2, 8), y = top + Math.min(height / 2, 8);
    return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight && front(node, x, y);
  };
  const wrong = [];
  for (const name of ['title', 'next', 'back']) if (!seen(box(part(name)))) wrong.push(name + ' is out of view');
  const words = box(part('words')), body = part('body'), begun = words.top >= 0 && words.top < innerHeight - 40;
  if (body.scrollTop > 0 || !begun || !front(part('words'), words.left + 20, words.top + 8))
    wrong.push('the words do not begin in view');
  const menu = document.querySelector('.ouro-site-nav'), wide = innerWidth >= 1200;
  if (wide && words.bottom > box(body).bottom + 1) wrong.push('words are behind the buttons');
  const aside = part('residual').firstElementChild, high = wide && innerHeight >= 900;
  if (high && aside && box(aside).bottom > box(body).bottom + 1) wrong.push('the picture below the words is cut');
  if (wide && menu && menu.getBoundingClientRect().top < 0) wrong.push('the menu is scrolled away');
  if (!body.firstElementChild || body.clientHeight < Math.min(60, body.scrollHeight)) wrong.push('the words have no room');
  const theory = part('theory').hidden ? [] : [...part('theory').querySelectorAll('input')].slice(0, 1);
  const spots = [...document.querySelectorAll('[data-spot]')].filter((node) => node.getClientRects().length);
  const first = [...theory, ...spots].slice(0, 1);
  if (first.length && !begins(first[0])) wrong.push('what they speak of does not begin in view');
  const open = document.querySelector('.ouro-learn .ouro-locked');
  if (open && !seen(box(open))) wrong.push('the card is out of view');
  if (open && !begins(document.querySelector('[data-open]'))) wrong.push('the token of the card is out of view');
  if (document.scrollingElement.scrollWidth > innerWidth) wrong.push('the page scrolls sideways');
  return [wrong, spots.length + theory.length];
}"""


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the static lessons."""
    folder = tmp_path_factory.mktemp("static") / "gallery"
    static_site.write_gallery(folder)
    return (folder / "index.html").as_uri()


def seen_whole(page: Any, part: str) -> bool:
    box = page.locator(part).bounding_box()
    return bool(box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"])


EDGES = """node => {
  const style = getComputedStyle(node);
  return [style.borderLeftColor, style.borderTopColor];
}"""


def assert_colours_of_trees(page: Any) -> None:
    """The rows of the mask have the colours that draft and suffixes have in a tree."""
    for look in ("draft", "suffix"):
        node = page.locator(f'.ouro-mask-node[data-look="{look}"]').first
        colours = node.evaluate(EDGES)
        assert colours == [f"rgb{tuple(bytes.fromhex(LOOKS[look].colour[1:]))}"] * 2


def walk(page: Any) -> None:
    """Through every stop of every chapter to the end, by Next alone."""
    chapters = learn.chapters()
    for number, chapter in enumerate(chapters):
        for stop in range(len(chapter["stops"]) + 1):
            if number or stop:
                page.locator(".ouro-learn-next").click()
            page.wait_for_selector(f'.ouro-learn[data-at="{number}.{stop}"]')
            wrong, spots = page.evaluate(TOGETHER)
            assert wrong == [], (page.viewport_size, chapter["id"], stop, wrong)
            told = chapter["stops"][stop] if stop < len(chapter["stops"]) else {}
            assert spots or not {"spot", "figure"} & told.keys(), (chapter["id"], stop)
            if told.get("figure") == "mask":
                assert_colours_of_trees(page)
    page.locator(".ouro-learn-next").click()
    page.wait_for_selector(".ouro-learn[data-ended]")
    assert page.evaluate(TOGETHER)[0] == [], page.viewport_size
    assert page.locator(".ouro-learn-run").is_hidden(), "no step that nothing speaks of"
    links = page.locator(".ouro-learn-onward a")
    assert links.count() >= 2 and all(one.get_attribute("href") for one in links.all())
    if page.viewport_size["width"] > PHONE[0]:
        assert seen_whole(page, ".ouro-learn-onward"), page.viewport_size


SIZES = {"desk": DESK, "low": (1366, 768), "between": (1024, 768), "phone": PHONE}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_words_next_and_what_they_speak_of_are_seen_together_in_the_static_lessons(
    reader: Any, lessons: str, size: tuple[int, int]
) -> None:
    resize(reader, size)
    reader.goto(lessons)
    walk(reader)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_words_next_and_what_they_speak_of_are_seen_together_on_the_page(
    reader: Any, url: str, size: tuple[int, int]
) -> None:
    resize(reader, size)
    reader.goto(url)
    reader.wait_for_selector("#token-view .ouro-token")
    open_tab(reader, "Learn")
    walk(reader)
    rail = reader.locator(".ouro-learn-chapter").first
    assert rail.evaluate("n => getComputedStyle(n).borderTopWidth") == "0px", "a thin line"
    fold, body = reader.locator(".ouro-learn-fold"), reader.locator(".ouro-learn-body")
    assert fold.is_visible() == (size == PHONE)
    if size == PHONE:
        fold.click()
        assert body.is_hidden() and fold.get_attribute("aria-expanded") == "false"
        reader.locator(".ouro-learn-back").click()
        assert body.is_visible(), "the next stop has words again"


FORCED = """() => {
  const drawn = (node) => node.checkVisibility({visibilityProperty: true}) && node.getClientRects().length;
  const all = (chosen) => [...document.querySelector('main').querySelectorAll(chosen)].filter(drawn);
  const look = (node) => {
    const style = getComputedStyle(node);
    return [style.color, style.backgroundColor, style.borderTopColor].join();
  };
  const canvas = getComputedStyle(document.body).backgroundColor;
  const edged = (node) => {
    const style = getComputedStyle(node);
    return style.borderTopStyle === 'solid' && parseFloat(style.borderTopWidth) >= 1 && style.borderTopColor !== canvas;
  };
  return {
    bare: all('button:not(.label-wrap)').filter((node) => !edged(node)).map((node) => node.outerHTML.slice(0, 120)),
    own: all('[type=checkbox], [type=radio], [type=range]').map((node) => getComputedStyle(node).appearance),
    counts: ['button', '[type=checkbox]', '[type=range]'].map((chosen) => all(chosen).length),
    chosen: all('[role=tab][aria-selected=true], [aria-pressed=true], .ouro-learn-chapter[aria-current]').map(look),
    others: all('[role=tab][aria-selected=false], [aria-pressed=false], .ouro-learn-chapter:not([aria-current])').map(look),
  };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_forced_colours_controls_are_seen_and_what_is_chosen_can_be_told(
    browser: Any, url: str, scheme: str
) -> None:
    page = browser.new_page(
        viewport={"width": DESK[0], "height": DESK[1]}, forced_colors="active", color_scheme=scheme
    )
    page.goto(f"{url}/?__theme={scheme}")
    page.wait_for_selector("#token-view .ouro-token")
    page.get_by_role("button", name="show guesses").click()
    open_settings(page)
    for tab in ("Watch", "Learn"):
        open_tab(page, tab)
        view = {"Watch": "#token-view", "Learn": "#learn-view"}[tab]
        if tab == "Learn":  # the stop after the race, which has no timeline
            page.locator(".ouro-learn-next").click()
        page.locator(f"{view} .ouro-step-button").first.wait_for()
        fade(page)
        found = page.evaluate(FORCED)
        assert found["bare"] == [] and set(found["own"]) <= {"auto"}, (tab, found)
        assert found["counts"][0] > 10
        chosen, others = {*found["chosen"]}, {*found["others"]}
        assert chosen and others and not chosen & others, (tab, found)
        if tab == "Watch":
            assert found["counts"][1] >= 4 and found["counts"][2] >= 1, "switches and sliders"
            assert len(found["chosen"]) >= 2, "the tab and the toggle"
    page.close()
