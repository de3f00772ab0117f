"""The text of a run, its two charts and its tree, which move together; in a saved replay, from
disk. The oracle is the trace."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.messages import counted
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from tests.visitor import bar_at, faultless, point_at, press_at, press_bar, view_alone
from visualize.deploy.static_site import replay_html
from visualize.gallery import runs as gallery
from visualize.kit.markup import PLOTLY_JS
from visualize.kit.palette import MAIN
from visualize.run import view as views
from visualize.run.components import TOKEN_VIEW
from visualize.run.figures import begun_charts
from visualize.run.tour import longest_step

pytestmark = pytest.mark.browser

NAME = "palindrome-union"
RUN = gallery.trace(NAME)
ONLY = '.ouro-legend [data-look="draft"] button'
DRAWN = ".ouro-bars.js-plotly-plot:not([data-due])"


def open_replay(page: Any, file: Path, run: Trace, baseline: Trace | None) -> None:
    file.write_text(replay_html(run, baseline), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector(DRAWN, timeout=60_000)


@pytest.fixture(scope="module")
def replay(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("replay") / "replay.html"
    with faultless(browser, (1440, 900), offline=True) as page:
        open_replay(page, file, RUN, gallery.baseline(NAME))
        yield page


def step_shown(page: Any) -> int:
    """The number of the step that the timeline names, counted from 0."""
    return int(page.locator(".ouro-count").inner_text().split()[1]) - 1


def bar_heights(page: Any) -> list[int]:
    bars = page.locator(".ouro-bars").evaluate("plot => plot.data.map(d => [...d.y])")
    return [sum(height or 0 for height in column) for column in zip(*bars, strict=True)]


def test_a_replay_has_both_charts_and_rests_at_the_step_that_wrote_most(replay: Any) -> None:
    assert step_shown(replay) == longest_step(RUN)
    assert bar_heights(replay) == [len(step.tokens) for step in RUN.steps]
    method, plain = replay.locator(".ouro-curves").evaluate(
        "plot => plot.data.map(d => [d.x.at(-1), d.y.at(-1)])"
    )
    assert method[1] == plain[1] == len(RUN.tokens) and method[0] < plain[0]


def test_its_tree_shows_the_whole_accepted_path(replay: Any) -> None:
    press_bar(replay, longest_step(RUN))
    tree = replay.locator(".ouro-tree")
    assert tree.evaluate("tree => tree.scrollWidth <= tree.clientWidth")
    accepted = replay.locator('.ouro-tree .ouro-node[data-state="accepted"]').count()
    assert accepted == len(RUN.steps[longest_step(RUN)].path)


@pytest.fixture
def phone(browser: Any, tmp_path: Path) -> Iterator[Any]:
    with faultless(browser, (390, 844), offline=True) as page:
        open_replay(page, tmp_path / "replay.html", RUN, gallery.baseline(NAME))
        yield page


def test_on_a_phone_no_letter_leaves_its_box_and_no_labels_overlap(phone: Any) -> None:
    press_bar(phone, longest_step(RUN))
    nodes = phone.eval_on_selector_all(
        ".ouro-tree .ouro-node",
        """nodes => nodes.map(node => {
          const [box, text] = ["rect", "text"].map(name => node.querySelector(name).getBBox());
          return [node.textContent, text.x - box.x, box.x + box.width - text.x - text.width];
        })""",
    )
    assert [words for words, before, behind in nodes if min(before, behind) < 3] == []
    phone.locator(".ouro-curves").scroll_into_view_if_needed()
    phone.wait_for_selector(".ouro-curves.js-plotly-plot:not([data-due])")
    boxes = phone.eval_on_selector_all(
        ".ouro-curves :is(.ytick text, .ytitle)",
        """labels => labels.map(label => label.getBoundingClientRect())
          .map(({ x, y, right, bottom }) => [x, y, right, bottom])""",
    )
    assert len(boxes) > 2
    for n, (left, top, right, bottom) in enumerate(boxes):
        for x, y, x_end, y_end in boxes[:n]:
            apart = x >= right or x_end <= left or y >= bottom or y_end <= top
            assert apart, "two labels of the chart overlap"


def test_a_bar_previews_its_step_under_the_pointer_and_a_click_goes_there(replay: Any) -> None:
    press_bar(replay, 3)
    replay.mouse.move(*bar_at(replay, 9))
    assert replay.locator(".ouro-tree-note").inner_text().startswith("Step 10:")
    assert step_shown(replay) == 3, "a preview does not move the run"
    written = len(RUN.steps[9].tokens)
    assert (
        replay.locator(".ouro-bars-title")
        .inner_text()
        .startswith(f"Step 10: {counted(written, 'token')}")
    )
    replay.mouse.move(5, 5)
    assert replay.locator(".ouro-tree-note").inner_text().startswith("Step 4:")
    press_bar(replay, 9)
    assert step_shown(replay) == 9


def test_a_bar_stands_there_when_its_step_is_over(replay: Any) -> None:
    """In slow motion, at the guesses of a step; the oracle is where its bar begins and ends."""
    press_bar(replay, 4)
    veil = "() => document.querySelector('.ouro-bars .ouro-cursor').getBoundingClientRect().left"
    slow = replay.get_by_role("button", name="slow motion")
    (before, _), (bar, _) = bar_at(replay, 3), bar_at(replay, 4)
    assert replay.evaluate(veil) > bar
    slow.click()
    replay.get_by_label("One back (←)").click()
    assert before < replay.evaluate(veil) < bar, "the target has judged, and not written"
    slow.click()


def test_the_toolbar_of_a_chart_covers_no_bar_and_moves_nothing(replay: Any) -> None:
    press_bar(replay, 4)
    replay.mouse.move(*bar_at(replay, len(RUN.steps) - 1))
    tool = replay.locator(".ouro-bars .modebar-btn").first
    box, bars = tool.bounding_box(), replay.locator(".ouro-bars").bounding_box()
    assert box["y"] + box["height"] <= bars["y"] + 4
    for event in ("pointerdown", "pointerup"):
        tool.dispatch_event(event, {"clientX": box["x"], "clientY": box["y"], "bubbles": True})
    assert step_shown(replay) == 4


def test_a_chart_of_a_saved_run_is_saved_as_a_picture(replay: Any) -> None:
    """The policy of the page allows the picture that it is made of."""
    tools = replay.locator(".ouro-bars .modebar-btn")
    for tool, start in zip(tools.all(), (b"\x89PNG", b"<svg"), strict=True):
        with replay.expect_download() as download:
            tool.dispatch_event("click")
        assert Path(download.value.path()).read_bytes().startswith(start)


def test_a_drag_over_bars_highlights_the_tokens_of_its_steps(replay: Any) -> None:
    replay.mouse.move(*bar_at(replay, 11))
    replay.mouse.down()
    replay.mouse.move(*bar_at(replay, 8))
    replay.mouse.move(*bar_at(replay, 6))
    replay.mouse.up()
    picked = replay.eval_on_selector_all(
        ".ouro-step[data-picked]", "steps => steps.map(s => Number(s.dataset.step))"
    )
    assert picked == [6, 7, 8, 9, 10, 11]
    tokens = sum(len(step.tokens) for step in RUN.steps[6:12])
    title = replay.locator(".ouro-bars-title").inner_text()
    assert title == f"Steps 7 to 12: {tokens} tokens, {tokens / 6:.2f} per step"
    press_bar(replay, 2)
    assert replay.locator(".ouro-step[data-picked]").count() == 0


def test_rejected_tokens_are_read_out_as_such_where_they_are_shown(replay: Any) -> None:
    """The oracle is the tree that the browser gives to a screen reader."""
    press_bar(replay, 3)
    rejected = replay.locator(".ouro-step[data-stage] .ouro-rejected").count()
    session = replay.context.new_cdp_session(replay)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    words = [node["name"]["value"] for node in nodes if "name" in node]
    assert rejected and words.count(", rejected: ") == 1


def test_a_click_on_a_token_moves_the_run_to_its_step_and_opens_its_card(replay: Any) -> None:
    press_bar(replay, 2)
    press_at(replay, replay.locator('.ouro-step[data-step="7"] .ouro-token').first)
    assert step_shown(replay) == 7
    card = replay.locator(".ouro-card")
    assert "step 8" in card.inner_text()
    token = replay.locator('.ouro-step[data-step="7"] .ouro-token').first.bounding_box()
    assert abs(card.bounding_box()["y"] - token["y"] - token["height"]) < 40, "beside the token"
    replay.keyboard.press("Escape")


def test_the_legend_groups_sources_beside_the_first_and_isolates_one(replay: Any) -> None:
    press_bar(replay, len(RUN.steps) - 1)
    counts = Counter(look for step in RUN.steps for look in step.looks)
    main = {key: counts[key] for key in MAIN if counts[key]}
    wanted = main | {"others": len(RUN.tokens) - sum(main.values())}

    def named() -> dict[str, int]:
        entries: list[tuple[str, str]] = replay.eval_on_selector_all(
            ".ouro-legend .ouro-key",
            "keys => keys.map(k => [k.dataset.look, k.querySelector('b').textContent])",
        )
        return {look: int(count) for look, count in entries}

    assert named() == wanted
    replay.locator(".ouro-legend-more").click()
    assert named() == dict(counts), "each of the others, none with a zero"
    replay.locator(".ouro-legend-more").click()
    isolated = "document.querySelector('.ouro-run').dataset.only"
    replay.mouse.move(5, 5)
    point_at(replay, replay.locator(ONLY))
    assert replay.evaluate(isolated) == "draft", "under the pointer"
    replay.mouse.move(5, 5)
    assert replay.evaluate(isolated) is None
    replay.locator(ONLY).click()
    faded = replay.eval_on_selector_all(
        ".ouro-token", "tokens => tokens.filter(t => getComputedStyle(t).opacity < 1).length"
    )
    assert faded == len(RUN.tokens) - counts["draft"]
    bars = replay.locator(".ouro-bars").evaluate(
        "plot => plot.data.filter(d => d.marker.opacity === 1).map(d => d.meta.look)"
    )
    assert bars == ["draft"]
    replay.locator(ONLY).click()


def test_every_token_of_a_character_has_a_mark_that_can_be_clicked(
    replay: Any, tmp_path: Path
) -> None:
    """Three tokens make one character: the first two add no text."""
    texts = ("", "", "🐍", *RUN.texts[3:])
    page = replay.context.new_page()
    open_replay(page, tmp_path / "pieces.html", replace(RUN, texts=texts), None)
    widths = page.eval_on_selector_all(
        ".ouro-token", "tokens => tokens.map(t => t.getBoundingClientRect().width)"
    )
    assert len(widths) == len(RUN.tokens) and min(widths[:3]) > 4
    press_at(page, page.locator('.ouro-token[data-index="1"]'))
    assert "position 2" in page.locator(".ouro-card").inner_text()
    page.close()


def test_bars_and_curve_grow_with_the_steps_of_a_run_under_way(
    browser: Any, tmp_path: Path
) -> None:
    """The browser gets charts without steps, then steps, as `Live` sends them."""
    props = {"value": None, "looks": views.legend()}
    steps = views.steps_view(RUN.steps, RUN.texts, Summary(RUN).sampling, views.piece_of(RUN))
    with view_alone(browser, tmp_path / "run.html", TOKEN_VIEW, props) as page:
        page.add_script_tag(path=PLOTLY_JS)
        for view in (
            {"charts": begun_charts(), "steps": [], "prompt": "", "from": 0},
            {"steps": steps[:3], "from": 0},
            {"steps": steps[3:5], "from": 3},
        ):
            page.evaluate("view => show(view)", {"run": "live", **view})
        looks = len({look for step in RUN.steps[:5] for look in step.looks})
        page.wait_for_function(  # the charts are drawn four times a second at most
            "looks => document.querySelector('.ouro-bars').data?.length === looks", arg=looks
        )
        heights = bar_heights(page)
        assert heights == [len(step.tokens) for step in RUN.steps[:5]]
        tokens = page.locator(".ouro-curves").evaluate("plot => plot.data[0].y")
        assert tokens == [0, *accumulate(heights)]
