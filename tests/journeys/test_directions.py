"""Texts that run from right to left, and pages that a browser translates.

The oracle of the order is the same plain text in `<p dir="auto">`, as the browser draws it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.notebook.runs import safe, trace_html
from ouroboros_core.sources import Source
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Judged, Prompt, Seconds, Step, Trace
from ouroboros_core.tree import Provenance, chain
from tests.traces import make_trace
from tests.visitor import faultless, point_at, write_view
from visualize.deploy.static_site import replay_html
from visualize.draft_game.tab import DraftGameView
from visualize.kit.markup import Markup, template
from visualize.kit.modules import carried
from visualize.kit.palette import style
from visualize.kit.plot_view import plot_markup
from visualize.run import view as views
from visualize.run.components import TOKEN_VIEW

pytestmark = pytest.mark.browser

Written = tuple[list[str], list[str], str]
"""Of a step: what was accepted, what was rejected behind it, and the target's own token."""
ARABIC: list[Written] = [
    (["قرأ", " الطا"], ["ئر"], "لب"),
    ([" 2"], ["7", "9 مرة"], "5"),
    ([" كتاباً", "،", " منها"], [" Java"], " Py"),
    (["thon"], [" لغة"], " 3"),
    ([], ["1"], ".1"),
    (["4 بسعر", " ٢"], ["٧"], "٥"),
    (["٠"], [" دينار"], " ديناراً."),
]
HEBREW: list[Written] = [
    (["בשנת", " 19"], ["84 ("], "48"),
    ([" (ה'תש\"ח)"], ["!"], " נמכרו"),
    ([" 37"], [" אחוז"], "%"),
    ([" מהספרים", ","], [" ראו"], " ראה Moby"),
    (["-Dick"], [], " עמ' 12"),
    (["-1"], ["9", "8"], "5"),
    ([], ["!", "!"], "."),
]
MIXED: list[Written] = [
    (["The", " word كت"], ["ب"], "اب"),
    ([" 2"], ["0 مرات"], "5"),
    ([" مرة"], [" is"], " means"),
    ([" 1"], ["3"], "4 books."),
]
LATIN: list[Written] = [(["It", " costs 2"], ["9"], "5"), ([" euros"], [" or"], ".")]
TEXTS = {"arabic": ARABIC, "hebrew": HEBREW, "mixed": MIXED, "latin": LATIN}
INSIDE = {"arabic": 4, "hebrew": 2, "mixed": 4, "latin": 2}
"""Of each text a token that goes on with a number."""
texts = pytest.mark.parametrize("name", TEXTS)
turned = pytest.mark.parametrize("name", ["arabic", "hebrew", "mixed"])


def written(steps: list[Written], prompt: str = "", *, chat: bool = False) -> Trace:
    """The trace of a run that wrote this, with what the models thought where a guess was wrong."""
    pieces: dict[int, str] = {0: "·"}

    def number(text: str) -> int:
        pieces[len(pieces)] = text
        return len(pieces) - 1

    made, root = [], 0
    for index, (accepted, guess, own) in enumerate(steps):
        proposed, target = [number(text) for text in (*accepted, *guess)], number(own)
        path = tuple(range(1, len(accepted) + 1))
        judged: tuple[Judged, ...] = ()
        if guess:
            tried = proposed[len(accepted)]
            judged = (Judged(len(accepted), (target, tried), (0.81, 0.07), (0.2, 0.6)),)
        tree = chain(root, proposed, Provenance(Source.DRAFT, step=index))
        seconds = Seconds(draft=0.1, verify=0.1)
        made.append(Step(index, tree, path, target, 3, seconds, 1, judged=judged))
        root = target
    trace = make_trace(made, "speculative")
    words = tuple(pieces[token] for step in made for token in step.tokens)
    asked = Prompt(prompt, chat, (1, 2))
    return replace(trace, texts=words, pieces=pieces, prompt=asked, hyperparameters={"gamma": 4})


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    """A visitor in whose page no script fails."""
    with faultless(browser, (1440, 900), reduced_motion="reduce") as page:
        yield page


def opened(page: Any, trace: Trace, folder: Path) -> Any:
    """The text in a saved replay of a run, at its end."""
    file = folder / "replay.html"
    file.write_text(replay_html(trace), encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("#run .ouro-token").last.wait_for()
    page.get_by_label("Moment of the run").focus()
    page.keyboard.press("End")
    return page.locator("#run .ouro-text")


LETTERS = """(root, chosen) => {
  const found = [], range = document.createRange();
  for (const node of chosen ? root.querySelectorAll(chosen) : [root]) {
    if (!node.checkVisibility({visibilityProperty: true})) continue;
    for (const text of node.childNodes) {
      if (text.nodeType !== Node.TEXT_NODE) continue;
      for (let at = 0; at < text.length; at += 1) {
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        const {left, width, top} = range.getBoundingClientRect();
        found.push([text.data[at], left + width / 2, top]);
      }
    }
  }
  return found;
}"""
REFERENCE = """(root, text) => {
  const plain = document.createElement("p");
  plain.dir = "auto";
  plain.textContent = text;
  plain.className = root.className;
  root.after(plain);
  return plain;
}"""


def seen(letters: list[tuple[str, float, float]]) -> str:
    """Letters of one line from left to right."""
    assert max(top for *_, top in letters) - min(top for *_, top in letters) < 9, "one line"
    return "".join(letter for letter, *_ in sorted(letters, key=lambda one: one[1]))


def order(text: Any, chosen: str | None = ".ouro-token") -> str:
    return seen(text.evaluate(LETTERS, chosen))


def plain(text: Any, words: str) -> tuple[str, str]:
    """The order and the direction of the same text without tokens, in the same place."""
    node = text.evaluate_handle(REFERENCE, words)
    found = seen(node.evaluate(LETTERS)), str(node.evaluate("n => getComputedStyle(n).direction"))
    node.evaluate("n => n.remove()")
    return found


def direction(text: Any) -> str:
    return str(text.evaluate("node => getComputedStyle(node).direction"))


@texts
def test_the_letters_of_a_text_stand_as_those_of_a_plain_text_at_every_moment(
    reader: Any, tmp_path: Path, name: str
) -> None:
    trace = written(TEXTS[name])
    text = opened(reader, trace, tmp_path)
    wanted = plain(text, trace.text)
    assert (order(text), direction(text)) == wanted
    assert wanted[1] == ("rtl" if name in ("arabic", "hebrew") else "ltr")
    assert text.locator(".ouro-rejected").first.is_visible(), "a mark"
    reader.get_by_role("button", name="show guesses").click()
    assert (order(text), direction(text)) == wanted
    reader.get_by_role("button", name="show guesses").click()
    reader.get_by_label("Moment of the run").focus()
    reader.keyboard.press("Home")
    for _ in trace.steps:
        shown = "".join(text.locator(".ouro-token").locator("visible=true").all_text_contents())
        assert order(text) == order_of_beginning(text, trace.text, shown)
        reader.keyboard.press("ArrowRight")


def order_of_beginning(text: Any, words: str, shown: str) -> str:
    """The order of the beginning of a plain text whose end is there, but not shown."""
    node = text.evaluate_handle(REFERENCE, words)
    letters = node.evaluate(LETTERS)[: len(shown)]
    node.evaluate("n => n.remove()")
    return seen(letters)


WRITTEN_SO_FAR = ":is(.ouro-token, .ouro-rejected > span):not([data-later], [data-later] *)"
"""Where a run stands still, the rest of its text is pale."""


@turned
def test_a_draft_that_is_not_judged_reads_as_the_text_it_would_be(
    reader: Any, tmp_path: Path, name: str
) -> None:
    steps = TEXTS[name]
    trace = written(steps)
    text = opened(reader, trace, tmp_path)
    reader.get_by_role("button", name="slow motion").click()
    reader.get_by_label("Moment of the run").focus()
    reader.keyboard.press("Home")
    before = ""
    for accepted, guess, own in steps:
        draft = "".join((*accepted, *guess))
        for _ in range(len(accepted) + len(guess) - 1):
            reader.keyboard.press("ArrowRight")
        after = trace.text[len(before) + len("".join(accepted)) :]
        shown = order(text, WRITTEN_SO_FAR)
        assert shown == order_of_beginning(text, before + draft + after, before + draft)
        before += "".join((*accepted, own))
        for _ in range(3):
            reader.keyboard.press("ArrowRight")


WORDS = """(root) => {
  const found = [], range = document.createRange(), walk = document.createTreeWalker(root, 4);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const quoted = text.parentElement.closest("bdi") !== null;
    if (!text.length) continue;
    for (let at = 0; at < (quoted ? 1 : text.length); at += 1) {
      range.setStart(text, at);
      range.setEnd(text, quoted ? text.length : at + 1);
      const {left, width, top, height} = range.getClientRects()[0] ?? {};
      if (width) found.push([quoted, left + width / 2, Math.round(top + height / 2)]);
    }
  }
  return found;
}"""


def assert_in_order(sentence: Any) -> bool:
    """The letters of a sentence go from left to right, each quoted text at its place between them;
    whether it quotes one."""
    places = sentence.evaluate(WORDS)
    for (_, left, top), (_, then, below) in pairwise(places):
        assert then > left or below > top + 5, sentence.text_content()
    return any(quoted for quoted, *_ in places)


@turned
def test_sentences_keep_their_order_around_what_they_quote(
    reader: Any, tmp_path: Path, name: str
) -> None:
    trace = written(TEXTS[name])
    text = opened(reader, trace, tmp_path)
    parts = reader.locator(".ouro-card p, .ouro-tree-note")
    for node in text.locator(".ouro-token, .ouro-rejected:first-child").all():
        node.evaluate("node => node.click()")
        shown = [part for part in parts.all() if part.is_visible()]
        assert sum(map(assert_in_order, shown)) >= 2, "the head, and the reason or the step"
        head = reader.locator(".ouro-card .ouro-quote")
        assert head.evaluate("n => [n.tagName, n.translate]") == ["BDI", False]
        written_there = node.get_attribute("data-text") or node.text_content()
        assert head.text_content().replace("␣", " ") == written_there


@turned
def test_arrow_keys_go_where_they_point_and_reach_every_token(
    reader: Any, tmp_path: Path, name: str
) -> None:
    reader.set_viewport_size({"width": 390, "height": 844})
    trace = written(TEXTS[name] * 2)
    text = opened(reader, trace, tmp_path)
    focus = """() => {
      const node = document.activeElement, box = node.getClientRects()[0];
      return [Number(node.dataset.index), box.left + box.width / 2, box.top + box.height / 2];
    }"""
    onward, back = ("Left", "Right") if direction(text) == "rtl" else ("Right", "Left")
    for key, start in ((onward, "Home"), (back, "End")):
        text.locator(".ouro-token").first.evaluate("node => node.focus()")
        reader.keyboard.press(start)
        for _ in range(9):  # to the edge of the line
            reader.keyboard.press(f"Arrow{back if key == onward else onward}")
        reached = [reader.evaluate(focus)]
        while True:
            reader.keyboard.press(f"Arrow{key}")
            number, middle, line = reader.evaluate(focus)
            if number == reached[-1][0]:
                break
            _, before, above = reached[-1]
            if abs(line - above) < 9:
                assert middle > before if key == "Right" else middle < before
            reached.append([number, middle, line])
        assert sorted(number for number, *_ in reached) == list(range(len(trace.tokens)))


def test_a_question_and_its_answer_have_each_a_direction_of_their_own(
    reader: Any, tmp_path: Path
) -> None:
    text = opened(reader, written(ARABIC, "Translate: the student read.", chat=True), tmp_path)
    assert direction(text) == "rtl"
    assert direction(text.locator(".ouro-prompt")) == "ltr"
    text = opened(reader, written(LATIN, "كم 2", chat=True), tmp_path)
    assert (direction(text), direction(text.locator(".ouro-prompt"))) == ("ltr", "rtl")


def test_a_text_that_goes_on_with_its_beginning_is_one_text(reader: Any, tmp_path: Path) -> None:
    """Also where a number begins in the prompt and ends in the answer."""
    beginning, steps = "سنة 20", [([], ["19"], "24"), (["؛"], [], " ثم")]
    trace = written(steps, beginning)
    text = opened(reader, trace, tmp_path)
    wanted = plain(text, beginning + trace.text)
    assert (order(text, ".ouro-prompt, .ouro-token"), direction(text)) == wanted


def mounted(page: Any, markup: Markup, value: dict[str, Any], folder: Path) -> None:
    """A view by itself in a page; what it triggers is in `sent`."""
    props = {"value": json.dumps(value), "looks": views.legend(), "clocks": []}
    page.goto(write_view(folder / "view.html", markup, props))
    page.evaluate("() => ready")


@turned
def test_the_game_shows_the_same_order(reader: Any, tmp_path: Path, name: str) -> None:
    trace = written(TEXTS[name])
    parts = [{"text": part, "look": "draft"} for part in trace.texts]
    game = {"text": parts, "done": False, "round": 1, "status": "", "said": ""}
    struck = [{"text": one, "look": "struck"} for one in TEXTS[name][0][1] * 2]
    mounted(reader, DraftGameView.VIEW, game | {"text": [*parts, *struck]}, tmp_path)
    text = reader.locator(".ouro-draft-game-text")
    rejected = "".join(one["text"] for one in struck)
    assert order(text.locator("bdi"), ".ouro-draft-game-struck") == plain(text, rejected)[0]
    text.locator("bdi").evaluate("node => node.remove()")
    assert (order(text), direction(text)) == plain(text, trace.text)
    middle = [*parts[: INSIDE[name]], *struck, *parts[INSIDE[name] :]]
    mounted(reader, DraftGameView.VIEW, game | {"text": middle}, tmp_path)
    assert (order(text), direction(text)) == plain(text, trace.text)


@turned
def test_two_runs_compared_show_the_same_order(reader: Any, tmp_path: Path, name: str) -> None:
    parts = list(written(TEXTS[name]).texts)
    runs = [{"texts": parts, "lengths": of} for of in ([1] * len(parts), [len(parts)])]
    file = tmp_path / "two.html"
    file.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style()}</style><div id=view></div><script>"
        f"const ready = {carried('compare/two_texts.js')}.then((two) => two.drawTexts("
        f"document.getElementById('view'), ...{json.dumps(runs)}));</script>",
        encoding="utf-8",
    )
    reader.goto(file.as_uri())
    reader.evaluate("() => ready")
    text = reader.locator(".ouro-two-text")
    assert text.locator("small").count() == 1
    text.evaluate("node => { node.style.fontSize = '4px'; }")
    assert (order(text, ".ouro-segment"), direction(text)) == plain(text, "".join(parts))


@turned
def test_a_box_of_the_tree_shows_its_token_in_the_order_of_the_token(
    reader: Any, tmp_path: Path, name: str
) -> None:
    steps: list[Written] = [
        (["".join((*kept, own))], guess, own) for kept, guess, own in TEXTS[name]
    ]
    text = opened(reader, written(steps), tmp_path)
    reader.get_by_label("Moment of the run").focus()
    reader.keyboard.press("Home")
    for _ in steps:
        for box in reader.locator(".ouro-node").all():
            label = box.locator("text")
            letters = label.evaluate(LETTERS)
            assert seen(letters) == plain(text, label.text_content())[0]
            edges = box.locator("rect").bounding_box()
            middles = [middle for _, middle, _ in letters]
            assert edges["x"] < min(middles) and max(middles) < edges["x"] + edges["width"]
        reader.keyboard.press("ArrowRight")


@turned
def test_a_notebook_shows_the_order_of_the_text_and_of_its_sentences(
    reader: Any, tmp_path: Path, name: str
) -> None:
    trace = written(TEXTS[name])
    file = tmp_path / "notebook.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + trace_html(trace), encoding="utf-8")
    reader.goto(file.as_uri())
    text = reader.locator(".ouro-nb-text")
    assert (order(text, "span"), direction(text)) == plain(text, trace.text)
    assert text.locator("b").first.is_visible(), "a mark"
    wanted = order(text, "span")
    for node in text.locator("span, b").all():
        point_at(reader, node)
        assert node.evaluate("node => node.matches(':hover') && (node.dataset.card || node.title)")
        assert order(text, "span") == wanted
    reader.locator("details").evaluate_all("nodes => nodes.forEach((n) => { n.open = true; })")
    assert all(assert_in_order(one) for one in reader.locator("li:not([data-look])").all())
    cards = text.locator("[data-card]").evaluate_all("nodes => nodes.map((n) => n.dataset.card)")
    shown = "".join(f"<pre>{safe(card)}</pre>" for card in cards)
    file.write_text(f"<!doctype html><meta charset=utf-8>{shown}", encoding="utf-8")
    reader.goto(file.as_uri())
    for card in reader.locator("pre").all():
        assert_words_in_order(card.evaluate(LETTERS))


def assert_words_in_order(letters: list[tuple[str, float, float]]) -> None:
    """What is not quoted goes from left to right, line by line."""
    before, quoted = 0.0, False
    for letter, middle, _ in letters:
        quoted = letter == "‘" or (quoted and letter != "’")
        if letter == "\n":
            before = 0.0
        elif not quoted and letter not in " ’":
            assert middle > before, "".join(letter for letter, *_ in letters)
            before = middle


def test_the_sign_of_a_parting_does_not_change_the_order(reader: Any, tmp_path: Path) -> None:
    """At the beginning, inside a word, between words, inside numbers of both kinds."""
    trace = written(ARABIC)
    view = views.run_view(Summary(trace), run="r", seq=1, badge_text="")
    for index in (0, 2, 4, 7, 9, 11, 14):
        parts = {"index": index, "mark": "tie", "words": "Why."}
        mounted(reader, TOKEN_VIEW, view | {"parts": parts}, tmp_path)
        text = reader.locator(".ouro-text")
        assert text.locator("[data-parts]").count() == 1
        assert order(text) == plain(text, trace.text)[0]


TRANSLATE = """(everything) => {
  const translatable = (text) => {
    const around = text.parentElement?.closest("*:not(svg, svg *)");
    const left = text.parentElement?.closest("script, style, textarea, font");
    return around && !left && text.data.trim() && (everything || around.translate);
  };
  const turn = (root) => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
    for (let text = walk.nextNode(); text; text = walk.nextNode())
      if (translatable(text)) texts.push(text);
    for (const text of texts) {
      const outer = document.createElement("font"), inner = document.createElement("font");
      inner.textContent = text.data.replace(/[a-z]+/gi, "mot");
      outer.append(inner);
      text.replaceWith(outer);
    }
    return texts.length;
  };
  const count = turn(document.body);
  new MutationObserver(() => turn(document.body)).observe(document.body,
    {childList: true, subtree: true, characterData: true});
  return count;
}"""
WRITTEN = """() => ({
  tokens: [...document.querySelectorAll(".ouro-token")].map((node) => node.textContent),
  counts: [...document.querySelectorAll(".ouro-key b")].map((node) => node.textContent),
  tree: [...document.querySelectorAll(".ouro-node text")].map((node) => node.textContent),
  count: document.querySelector(".ouro-count")?.textContent.match(/[0-9]+/g),
})"""


@pytest.mark.parametrize("everything", [False, True], ids=["as asked", "everything"])
def test_a_page_that_is_translated_keeps_its_texts_and_tells_the_server_of_them(
    reader: Any, tmp_path: Path, everything: bool
) -> None:
    """A browser puts its words into new elements. One that translates what it is asked not to
    changes what is shown, and nothing of what is told."""
    trace = written([*LATIN, *ARABIC, *MIXED], "A question", chat=True)
    view = views.run_view(Summary(trace), run="r", seq=1, badge_text="recorded")
    mounted(reader, TOKEN_VIEW, view, tmp_path)
    before = reader.evaluate(WRITTEN)
    assert before["tokens"] == list(trace.texts)
    assert reader.evaluate(TRANSLATE, everything) > 20, "the page's own words"
    if not everything:
        assert reader.evaluate(WRITTEN) == before
        assert reader.locator(".ouro-prompt").text_content() == "A question\n\n"
    assert reader.locator(".ouro-meaning summary").inner_text() == "mot mot mot mot"
    for index in (0, 2, len(trace.texts) - 1):
        reader.get_by_label("Moment of the run").focus()
        reader.keyboard.press("End")
        reader.locator(f".ouro-token[data-index='{index}']").click()
        told = reader.evaluate("sent.filter(([name]) => name === 'select').at(-1)[1]")
        assert (told["index"], told["text"]) == (index, trace.texts[index])
        if not everything:
            quotes = reader.locator(".ouro-card bdi").all_text_contents()
            assert all(one.replace("␣", " ") in trace.pieces.values() for one in quotes)
            assert reader.locator(".ouro-card .ouro-why").text_content().startswith("mot")
    reader.keyboard.press("Escape")
    reader.get_by_label("Moment of the run").focus()
    reader.keyboard.press("Home")
    reader.keyboard.press("ArrowRight")
    assert reader.evaluate(WRITTEN)["count"][:2] == ["2", str(len(trace.steps))]
    reader.keyboard.press("End")
    if not everything:
        assert reader.evaluate(WRITTEN) == before


def test_a_chart_is_not_translated() -> None:
    views = map(template, ("what_if/what_if_view", "learn/theory_view"))
    for markup in (*views, plot_markup("Speedup", 200).template):
        charts = [part for part in markup.split("<") if part.startswith('div class="ouro-plot')]
        assert charts and all('translate="no"' in part for part in charts)
