"""The pictures of the lessons: what they show is what was recorded, and hands of all kinds move
them."""

from __future__ import annotations

import colorsys
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.lookup.suffix_automaton import FRESH, SuffixAutomaton
from tests import ROOT
from tests.visitor import faultless, has
from tests.visualize.learn import as_shown, longest_earlier
from visualize.gallery import runs as gallery
from visualize.learn import lessons
from visualize.learn import pictures as lesson_figures
from visualize.learn.chapters.copying import LOST
from visualize.learn.chapters.suffixes import DISCARDED
from visualize.learn.numbers import GUESSES

READ = """async ([module, cases]) => {
  const { SuffixAutomaton, FRESH } = await import(module);
  const read = (tokens) => {
    const automaton = new SuffixAutomaton();
    const found = tokens.map((token) => {
      automaton.append(token);
      return automaton.recent && [automaton.recent.length, automaton.recent.end];
    });
    return [found, automaton.states];
  };
  return [cases.map(read), FRESH];
}"""


@pytest.mark.browser
def test_the_automaton_in_the_browser_finds_what_the_one_in_python_finds(browser: Any) -> None:
    """And what a search by brute force finds, on short texts; states are counted alike."""
    dice = random.Random(5)
    cases = [[], [1], [1] * 200, [1, 2] * 60, [1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2]]
    cases += [[dice.randrange(letters) for _ in range(90)] for letters in (2, 3, 5) for _ in "abcd"]
    module = "data:text/javascript," + quote(
        (ROOT / "visualize" / "learn" / "automaton.js").read_text(encoding="utf-8")
    )
    page = browser.new_page()
    found, fresh = page.evaluate(READ, [module, cases])
    page.close()
    assert fresh == FRESH
    for tokens, (matches, states) in zip(cases, found, strict=True):
        automaton, told = SuffixAutomaton(), []
        for token in tokens:
            automaton.append(token)
            match = automaton.recent
            told.append(match and [match.length, match.end])
        assert matches == told and states == len(automaton._next)
        if len(set(tokens)) > 1:
            assert matches == [longest_earlier(tokens[: n + 1]) for n in range(len(tokens))]
        assert states <= max(1, 2 * len(tokens))


def test_pictures_of_time_begin_with_what_was_measured() -> None:
    """The pass over several rows has the price of the words beside it, and the step that of the
    run: by the theory's formula within a twentieth of the measured cost."""
    chapters = {chapter["id"]: chapter for chapter in lessons.chapters()}
    told = chapters["plain"]["figures"]["pass"]
    words = as_shown(chapters["plain"]["stops"][-1]["words"][1])
    assert f"over {told['rows']:.1f} rows on average took {told['cost']:.2f}×" in words
    assert len(told["tokens"]) == GUESSES + 1
    values = chapters["guess"]["figures"]["time"]["values"]
    facts = gallery.facts(chapters["guess"]["run"])
    step = values["gamma"] * values["cost"] + 1 + values["gamma"] * values["row"]
    assert step == pytest.approx(facts["cost"], rel=0.05)
    tokens = sum(values["alpha"] ** n for n in range(values["gamma"] + 1))
    assert tokens == pytest.approx(facts["length"], rel=0.05)


def figures(kind: str) -> list[dict[str, Any]]:
    """All pictures of a kind, of all chapters."""
    pictures = [chapter.get("figures", {}) for chapter in lessons.chapters()]
    return [found[kind] for found in pictures if kind in found]


def test_runs_on_one_clock_are_recorded_ones_and_as_fast_as_is_said() -> None:
    """Texts are those of the traces, bars add up to the clock, and their ratio is the speedup."""
    texts = {gallery.trace(name).text for name in gallery.runs()}
    found = [*figures("race"), *figures("runs")]
    assert len(found) >= 7
    for figure in found:
        for lane in figure["lanes"]:
            pieces = figure["texts"][lane["text"]]
            assert "".join(pieces) in texts and sum(lane["counts"]) == len(pieces)
            assert lane["passes"] == len(lane["counts"]) == len(lane["ends"])
            assert sum(lane["seconds"]) == pytest.approx(lane["ends"][-1], rel=0.001)
            assert lane["length"] == pytest.approx(len(pieces) / lane["passes"])
            if "speedup" in lane and "plain" in lane:
                ratio = sum(figure["lanes"][lane["plain"]]["seconds"]) / sum(lane["seconds"])
                assert ratio == pytest.approx(lane["speedup"], rel=0.001)


@cache
def bench_runs(file: str) -> list[dict[str, Any]]:
    path = ROOT / "assets" / f"{file}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["runs"])


def prompts_of(file: str, group: str) -> set[int]:
    """The prompts of a group that plain decoding answered in a benchmark."""
    plain = [run for run in bench_runs(file) if run["method"] == gallery.PLAIN]
    return {run["question"] for run in plain if group in (run["group"], "overall")}


def test_draft_lengths_to_choose_are_sums_over_the_benchmarks_runs() -> None:
    (figure, *more) = figures("lengths")
    assert more == [figure], "the same in both chapters"
    files = {draft: file for file, draft in lesson_figures.BENCHES.items()}
    groups = {kind: group for group, kind in lesson_figures.KINDS.items()}
    chosen = [lane for lane in figure["lanes"] if lane["at"]]
    assert {(lane["at"][0], groups[lane["at"][1]]) for lane in chosen} == {
        (draft, group)
        for draft, file in files.items()
        for group in groups.values()
        if len(prompts_of(file, group)) >= 4
    }
    assert all(
        sum(lane["at"][2] == gamma for lane in chosen) == len(chosen) / 4 for gamma in "1248"
    )
    for lane in chosen:
        draft, kind, gamma = lane["at"]
        assert lane["prompts"] == len(prompts_of(files[draft], groups[kind])) >= 4
        if groups[kind] == "overall":
            continue
        bench = bench_runs(files[draft])
        of = {f"speculative[gamma={gamma}]"} | (
            {"speculative[published]"} if gamma == "4" else set()
        )
        runs = [r for r in bench if r["method"] in of and r["group"] == groups[kind]]
        if {"speculative[gamma=4]"} & {r["method"] for r in runs}:
            runs = [r for r in runs if r["method"] == "speculative[gamma=4]"]
        passes = sum(r["passes"] for r in runs)
        assert lane["length"] == pytest.approx(sum(r["tokens"] for r in runs) / passes)
        assert lane["passes"] == passes
        drafted = sum(r["draft_passes"] for r in runs) / passes
        assert drafted <= int(gamma), "no draft is longer than is said"
        total = sum(sum(r["seconds"][p] for p in r["seconds"] if "_" not in p) for r in runs)
        assert sum(lane["seconds"]) == pytest.approx(total, rel=0.001)


def test_intervals_of_the_draft_lengths_answer_what_the_lessons_ask() -> None:
    """For code one guess is too short, for questions on a passage eight are too long."""
    (figure, *_) = figures("lengths")
    bounds = {}
    for lane in figure["lanes"]:
        if lane["at"]:
            low, high = re.findall(r"\d\.\d\d", lane["between"])
            bounds[tuple(lane["at"])] = float(low), float(high)
    small = lesson_figures.BENCHES["benchmark"]
    rows = json.loads((ROOT / "assets" / "benchmark.json").read_text(encoding="utf-8"))["rows"]
    for gamma, method in (("8", "speculative[gamma=8]"), ("4", "speculative[published]")):
        row = next(r for r in rows if (r["method"], r["group"]) == (method, "code"))
        assert bounds[small, "code", gamma] == pytest.approx(row["ci95"], abs=0.005)
    assert bounds[small, "code", "1"][1] < bounds[small, "code", "4"][0]
    passage = "questions on a passage"
    assert bounds[small, passage, "8"][1] < min(1, bounds[small, passage, "4"][0])
    slower = {at for at, (_, high) in bounds.items() if high < 1}
    assert (small, passage, "8") in slower
    assert all(int(gamma) >= 4 for *_, gamma in slower), "drafts too long, as the last chapter says"


def test_a_draft_length_that_was_not_measured_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lesson_figures, "LENGTHS", ("3",))
    lesson_figures.lengths_figure.cache_clear()
    with pytest.raises(KeyError, match="gamma=3"):
        lesson_figures.lengths_figure()
    lesson_figures.lengths_figure.cache_clear()


def test_every_picture_names_a_kind_that_is_drawn() -> None:
    source = (ROOT / "visualize" / "learn" / "learn_figures.js").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^  (\w+): mount\w+,$", source, re.MULTILINE))
    shown = [one for c in lessons.chapters() for one in c.get("figures", {}).values()]
    assert {one["kind"] for one in shown} == drawn


@pytest.fixture(params=[1440, 390], ids=["desk", "phone"])
def reader(request: Any, browser: Any, site_url: str) -> Iterator[Any]:
    """A reader of the static lessons without a network; nothing fails in the page's scripts."""
    options: Any = {"reduced_motion": "reduce", "offline": True}
    with faultless(browser, (request.param, 900), **options) as page:
        page.goto(site_url)
        page.wait_for_selector(".ouro-learn[data-at]")
        yield page


def open_picture(page: Any, chapter: str, figure: str) -> dict[str, Any]:
    """Go to the stop of a picture; its data."""
    number = next(n for n, c in enumerate(lessons.chapters()) if c["id"] == chapter)
    found = lessons.chapters()[number]
    stop = next(n for n, one in enumerate(found["stops"]) if one.get("figure") == figure)
    page.locator(".ouro-learn-chapter").nth(number).click()
    for n in range(stop):
        page.wait_for_selector(f'.ouro-learn[data-at="{number}.{n}"]')
        page.locator(".ouro-learn-next").click()
    page.wait_for_selector(f'.ouro-learn[data-at="{number}.{stop}"]')
    page.locator(f".ouro-{figure}").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return dict(found.get("figures", {}).get(figure, {}))


@pytest.mark.slow
@pytest.mark.browser
def test_pictures_are_moved_by_keys_and_say_what_they_show(reader: Any) -> None:
    page, said = reader, ".ouro-picture-said"
    data = open_picture(page, "plain", "pass")
    for key, rows in (("Home", 1), ("End", len(data["tokens"]))):
        page.locator(".ouro-stepper input").press(key)
        has(page.locator(".ouro-pass-row"), rows)
        has(page.locator(".ouro-pass-weights"), 6)  # they travel once, for all rows
        has(page.locator(".ouro-pass-bar").nth(1).locator("i"), rows)
    data = open_picture(page, "phrases", "window")
    page.locator(".ouro-stepper input").press("End")
    last = data["passes"][-1]
    drawn = page.locator(".ouro-window-table td").all_inner_texts()
    assert sum(bool(text) for text in drawn) == sum(map(len, last["levels"])) + len(last["said"])
    assert (
        "6 + 7 + 7 + 7 = 27 rows for the window, that is 7 · (5 − 1) − 1."
        in page.locator(said).inner_text()
    )
    page.get_by_role("button", name="Pass: one back").press("Enter")
    assert page.locator(said).inner_text().startswith(f"Pass {len(data['passes']) - 1}:")

    data = open_picture(page, "suffixes", "mask")
    tree = gallery.trace(DISCARDED).steps[data["step"]].tree
    positions = page.locator(".ouro-mask-node").evaluate_all(
        "all => all.map(n => n.dataset.position)"
    )
    assert positions == [f"+{seen - 1}" for seen in tree.ancestors.sum(1)]
    page.keyboard.press("ArrowUp")
    has(page.locator(".ouro-mask-node[data-lit]"), int(tree.ancestors[-2].sum()))
    page.locator(".ouro-mask-cell").nth(2 * len(tree)).hover()
    has(page.locator(".ouro-mask-node[data-lit]"), int(tree.ancestors[2].sum()))
    page.locator(".ouro-mask-node").nth(3).hover()
    has(page.locator(".ouro-mask-node[data-lit]"), int(tree.ancestors[3].sum()))
    page.locator(".ouro-mask-node").nth(3).click()
    page.keyboard.press("End")
    has(page.locator(".ouro-mask-node[data-lit]"), int(tree.ancestors[-1].sum()))
    has(page.locator(".ouro-mask-cell[data-seen]"), int(tree.ancestors.sum()))
    page.keyboard.press("Home")
    has(page.locator(".ouro-mask-node[data-lit]"), 1)

    open_picture(page, "phrases", "pool")
    assert page.locator(".ouro-token-chip[data-used]").first.is_visible()
    data = open_picture(page, "warm", "pool")
    assert page.locator(".ouro-stepper output").inner_text() == "{0} of {0}".format(
        len(data["sizes"])
    ), "it begins with the whole run"
    page.locator(".ouro-stepper input").press("Home")
    history = [one for one in data["entries"] if one["learned"] == "history"]
    has(page.locator(".ouro-token-chip"), len(history))
    page.locator(".ouro-stepper input").press("End")
    has(page.locator(".ouro-token-chip"), len(data["entries"]))
    told = page.locator(said).inner_text()
    assert f"holds {data['sizes'][-1]} phrases" in told
    assert "Held: " in told, "what is counted is more than what is listed, where there is much"

    open_picture(page, "copying", "copy")
    has(page.locator(".ouro-arcs path"), 2)
    open_picture(page, "copying", "automaton")
    page.locator(".ouro-copy-input").fill("one two three, one two four ")  # as one types
    page.locator(".ouro-stepper input").press("End")
    page.get_by_role("button", name="Place in the text: one back").press("Space")
    told = page.locator(".ouro-copy-said").inner_text()
    assert re.search(r"6 tokens read, \d+ nodes. “ one two” occurred before", told)
    assert "followed by “ three, one”" in told and "goes on with 0 of these 3 tokens" in told
    marked = {
        look: "".join(page.locator(f'.ouro-copy-text span[data-look~="{look}"]').all_inner_texts())
        for look in ("end", "match", "copy", "later")
    }
    two = " one two"
    assert marked == {"end": two, "match": two, "copy": " three, one", "later": " four"}
    page.locator(".ouro-copy-input").fill("x" * 500)
    assert len(page.locator(".ouro-copy-input").input_value()) <= 500
    page.locator(".ouro-copy-input").fill("")
    assert "nothing is copied" in page.locator(".ouro-copy-said").inner_text()
    open_picture(page, "copying", "lost")
    end = page.locator('.ouro-copy-text span[data-look~="end"]').all_text_contents()
    assert "".join(end) == LOST, "read up to the match that is lost"
    open_picture(page, "family", "siblings")

    open_picture(page, "batches", "batch")
    page.locator('.ouro-batch input[name="batch"]').press("End")
    assert re.search(r"0\.50× .* 1280 rows; 295 are free", page.locator(said).inner_text()), (
        "as the words beside it say"
    )
    open_picture(page, "batches", "experts")
    page.locator(".ouro-stepper input").press("End")
    woken = round(128 - 128 * (120 / 128) ** 64)
    has(page.locator(".ouro-experts-grid [data-on]"), woken)


@pytest.mark.slow
@pytest.mark.browser
def test_a_dearer_row_shortens_the_best_guess_and_raises_what_breaks_even(
    browser: Any, site_url: str
) -> None:
    page = browser.new_page()
    page.goto(site_url.replace("index.html", "theory.html"))
    page.locator(".ouro-theory-said").wait_for()

    def told() -> list[float]:
        text = page.locator(".ouro-theory-said").inner_text()
        text = text.replace("\xa0", " ").replace("in a pass cost nothing", "each pass 1.00×")
        pattern = (
            r"ideal γ is (\d+).* with γ = 4, α must be at least ([\d.]+)\. .* each pass ([\d.]+)×"
        )
        return [float(n) for n in re.search(pattern, text).groups()]  # type: ignore[union-attr]

    axis = "document.querySelector('.ouro-theory-speedup').layout.yaxis.range"
    before = page.evaluate(axis)
    best, even, window = told()
    page.locator('input[name="row"]').fill("0.1")
    assert page.evaluate(axis) == before, "the curve is seen to sink"
    dear_best, dear_even, dear_window = told()
    assert dear_best < best and dear_even > even and (window, dear_window) == (1.0, 3.7)
    cost = 1 + 4 * (0.15 + 0.1)
    alpha = next(a / 1000 for a in range(1001) if sum((a / 1000) ** k for k in range(5)) >= cost)
    assert dear_even == pytest.approx(alpha, abs=0.01)
    page.locator('input[name="cost"]').fill("1")
    page.locator('input[name="row"]').fill("0.3")
    said = page.locator(".ouro-theory-said").inner_text()
    most = 5 / (1 + 4 * (1 + 0.3))
    assert most < 1 and "With γ\xa0=\xa04 even full acceptance would not pay." in said
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_what_a_row_costs_is_moved_by_keys_on_a_phone(browser: Any, site_url: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(site_url.replace("index.html", "theory.html"))
    slider, said = page.locator('input[name="row"]'), page.locator(".ouro-theory-said")
    said.wait_for()
    before, free = float(slider.input_value()), said.inner_text()
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert float(slider.input_value()) > before and said.inner_text() != free
    page.keyboard.press("Home")
    assert slider.input_value() == slider.get_attribute("min")
    page.close()


@pytest.mark.browser
def test_temperature_divides_the_scores_of_both_models(reader: Any) -> None:
    """By a softmax over divided logarithms; near zero both take their likeliest token."""
    data = open_picture(reader, "unchanged", "temperature")
    columns = np.log(np.maximum(1e-300, [row[1:] for row in data["rows"]]))
    for temperature in ("0", "0.5", "1", "2"):
        reader.get_by_label("T: temperature").fill(temperature)
        heated = np.exp(columns / max(0.01, float(temperature)))
        p, q = (heated / heated.sum(axis=0)).T
        said = reader.locator(".ouro-temperature .ouro-picture-said").inner_text()
        shown = float(re.search(r"([\d.]+)%", said)[1])  # type: ignore[index]
        assert shown == pytest.approx(100 * np.minimum(p, q).sum(), abs=0.5)
    assert [data["rows"][0][n] == max(row[n] for row in data["rows"]) for n in (1, 2)] == [True] * 2


@pytest.mark.slow
@pytest.mark.browser
def test_a_reader_chooses_recorded_runs_races_them_and_drafts(reader: Any) -> None:
    """One choice changes text, bars and speedup; the clock shows a part; a guess that is the
    recorded text is accepted token by token."""
    page, said = reader, ".ouro-picture-said"
    open_picture(page, "plain", "race")
    texts = page.locator(".ouro-race-text")
    assert texts.all_inner_texts() == ["", ""], "it begins with Play"
    page.get_by_label("Time", exact=True).press("End")
    assert len(set(texts.all_text_contents())) == 1, "the same text"
    time = page.get_by_label("Time", exact=True)
    time.press("Home")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    paused = time.input_value()
    page.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next, 50)))")
    assert time.input_value() == paused, "a paused clock stands still"
    time.fill("0.9")
    page.get_by_role("button", name="Play").click()
    assert float(time.input_value()) >= 0.9, "it goes on from where it stands"
    page.wait_for_function("n => n.value === '1'", arg=time.element_handle())
    page.get_by_role("button", name="Play").wait_for()
    data = open_picture(page, "suffixes", "runs")
    shown = []
    for prompt in ("Java heap", "Fibonacci"):
        page.get_by_label("Prompt").select_option(prompt)
        page.get_by_label("Method").select_option("Speculative decoding")
        lane = next(
            one for one in data["lanes"] if one["at"][:2] == [prompt, "Speculative decoding"]
        )
        assert f"{lane['speedup']:.2f}×" in page.locator(said).inner_text()
        widths = page.locator(".ouro-race-run").evaluate_all("all => all.map(n => n.offsetWidth)")
        assert widths[0] / widths[1] == pytest.approx(lane["speedup"], rel=0.05)
        assert texts.last.text_content() == "".join(data["texts"][lane["text"]])
        about = page.locator(".ouro-race-about").inner_text()
        assert about == methods.get("speculative").summary
        shown.append(texts.last.text_content())
    assert shown[0] != shown[1]
    open_picture(page, "reject", "lengths")
    before = page.locator(said).inner_text()
    page.get_by_label("Draft length γ").select_option("8")
    assert page.locator(said).inner_text() != before
    assert re.search(r"\(95% interval \d\.\d\d–\d\.\d\d\)\.$", page.locator(said).inner_text())
    caption = page.locator(".ouro-lengths figcaption")
    assert "Sums over 4 prompts." in caption.inner_text()
    page.get_by_label("Draft model").select_option(lesson_figures.BENCHES["benchmark-qwen"])
    assert "Sums over 12 prompts." in caption.inner_text()

    data = open_picture(page, "guess", "yourself")
    begun, pieces = data["begun"], data["pieces"]
    page.locator(".ouro-draft-form input").fill("".join(pieces[begun : begun + 2]).strip() + " zzz")
    page.keyboard.press("Enter")
    told = page.locator(said).inner_text()
    assert told.startswith("2 tokens of your draft accepted") and "3 tokens in 1 pass: 3.00" in told
    assert page.locator('.ouro-copy-text [data-look="gone"]').inner_text().strip() == "zzz"
    own = page.locator('.ouro-copy-text [data-look="match"]').text_content()
    assert own == pieces[begun + 2]
    broken = next(n for n, piece in enumerate(pieces) if piece == "\n\n")
    line, more = "".join(pieces[begun + 3 : broken]), "".join(pieces[broken + 1 : broken + 3])
    page.locator(".ouro-draft-form input").evaluate("(n, text) => { n.value = text }", line)
    page.keyboard.press("Enter")
    own = page.locator('.ouro-copy-text [data-look="match"]').text_content()
    assert own == "\n\n", "a draft that ends there leaves the line break to the target"
    page.reload()
    page.wait_for_selector(".ouro-learn[data-at]")
    open_picture(page, "guess", "yourself")
    across = "".join(pieces[begun:broken]) + " " + more
    page.locator(".ouro-draft-form input").evaluate("(n, text) => { n.value = text }", across)
    page.locator(".ouro-draft-form input").press("Enter")
    count = broken + 3 - begun
    assert page.locator(said).inner_text().startswith(f"{count} tokens of your draft accepted")


COLOURS = {"blue": 202, "orange": 27, "yellow": 41, "green": 164, "teal": 188}
"""The hue of each word, in degrees; grey has none."""
DRAWN = {
    "race_picture.js": {
        "teal": '.ouro-race-run i[data-part="prefill"]',
        "blue": ':is(.ouro-race-run, .ouro-time-track) i[data-part="draft"]',
        "orange": ':is(.ouro-race-run, .ouro-time-track) i[data-part="target"]',
    },
    "copy_picture.js": {
        "yellow": '.ouro-copy-text span[data-look~="match"]',
        "blue": '.ouro-copy-text span[data-look~="copy"]',
    },
    "automaton_picture.js": {
        "yellow": '.ouro-copy-text span[data-look~="match"]',
        "blue": '.ouro-copy-text span[data-look~="copy"]',
    },
    "shape_picture.js": {"green": ".ouro-shape-layers i[data-read]"},
    "window_picture.js": {
        "blue": '.ouro-window-table td[data-look="root"]',
        "green": '.ouro-window-table td[data-look="fits"]',
    },
}
"""What the words of a picture call by a colour, and the rule that draws it."""


@pytest.mark.parametrize("picture", DRAWN)
def test_the_colour_that_a_picture_names_is_drawn(picture: str) -> None:
    learn = ROOT / "visualize" / "learn"
    style = (learn / "learn_pictures.css").read_text("utf-8")
    style += (learn / "learn.css").read_text("utf-8")
    caption = (learn / picture).read_text("utf-8").lower()
    for word, selector in DRAWN[picture].items():
        assert re.search(rf"\b{word}\b", caption), word
        rule = style.split(selector, 1)[1].split("{", 1)[1].split("}", 1)[0]
        tone = re.findall(r"var\(--(\w+)\)", rule)[0]
        red, green, blue = bytes.fromhex(re.findall(rf"--{tone}: #(\w+);", style)[0])
        hue = 360 * colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0]
        assert hue == pytest.approx(COLOURS[word], abs=5), f"{word}: --{tone}"
