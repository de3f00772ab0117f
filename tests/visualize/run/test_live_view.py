"""A run in a browser while it is written and timed: a page from disk that gets the server's values.

The oracle is a recorded run, whose steps come one after the other.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from tests.visitor import view_alone
from visualize.gallery import runs as gallery
from visualize.kit.markup import TERMS
from visualize.run import view as views
from visualize.run.components import TOKEN_VIEW

pytestmark = pytest.mark.browser

NAME = "java-ouroboros"
STATE = """() => {
  const text = (name) => document.querySelector('.ouro-' + name).textContent;
  const counts = [...document.querySelectorAll('.ouro-legend .ouro-key b')]
    .map((b) => Number(b.textContent));
  return {
    status: text('status'),
    tokens: document.querySelectorAll('.ouro-token').length,
    counted: counts.reduce((sum, count) => sum + count, 0),
    note: text('tree-note'),
    timeline: text('timeline'),
    old: document.querySelector('.ouro-run').hasAttribute('data-old'),
  };
}"""


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The view of a run, still empty; `show(value)` gives it a value."""
    props = {"looks": views.legend(), "plotly": "", "asks": True, "value": None}
    with view_alone(browser, tmp_path / "run.html", TOKEN_VIEW, props) as view:
        yield view


def show(page: Any, value: dict[str, Any], rest_ms: int = 0) -> dict[str, Any]:
    """Return what the page shows after a value, and a moment."""
    page.evaluate("value => show(value)", value)
    page.wait_for_timeout(rest_ms)
    state: dict[str, Any] = page.evaluate(STATE)
    return state


def complete(factor: float = 1.0) -> dict[str, Any]:
    """Return the whole run, of which every step took `factor` times as long."""
    trace = gallery.trace(NAME)
    steps = tuple(replace(step, seconds=step.seconds.times(factor)) for step in trace.steps)
    summary = Summary(replace(trace, steps=steps))
    return views.run_view(summary, run="one", seq=int(100 * factor), badge_text="live")


def write(page: Any) -> dict[str, Any]:
    """Write the run step by step, and return its last value."""
    whole = complete()
    begun = {
        key: value for key, value in whole.items() if key in views.caption(gallery.trace(NAME))
    }
    begun |= {"run": "one", "badge": "live"}
    show(page, begun | {"seq": 0, "from": 0, "steps": [], "tiles": [], "status": "Reading …"})
    for number, step in enumerate(whole["steps"]):
        status = f"Step {number + 1}"
        part = {"run": "one", "seq": number + 1, "from": number, "steps": [step], "status": status}
        state = show(page, part)
        assert state["status"] == status, "the eye is told at once"
        assert state["counted"] == state["tokens"], "the legend counts the text at once"
        assert state["note"].startswith(f"{status}:"), "the step is told at once"
    return whole


def test_status_legend_step_and_timeline_agree_at_every_moment(page: Any) -> None:
    whole = write(page)
    state = show(page, {"run": "one", "seq": 90, "from": len(whole["steps"]), "steps": []}, 300)
    for _ in range(2):
        steps, tokens = len(whole["steps"]), sum(len(step["tokens"]) for step in whole["steps"])
        assert state["tokens"] == state["counted"] == tokens
        assert state["note"].startswith(f"Step {steps}:")
        assert f"step {steps} of {steps} · " in state["timeline"]
        state = show(page, whole | {"from": steps, "steps": [], "timing": True})
    assert state["status"] == whole["status"], "at once, without a pause"


def test_a_timed_run_brings_its_seconds_and_keeps_the_moment(page: Any) -> None:
    write(page)
    page.keyboard.press("Home")
    seconds = sum(step.seconds.prefill + step.seconds.decode for step in gallery.trace(NAME).steps)
    before = show(page, complete())
    assert f"{seconds:.2f} s" in before["timeline"]
    after = show(page, complete(2.0) | {"again": "same steps"})
    assert f"{2 * seconds:.2f} s" in after["timeline"] and after["tokens"] == before["tokens"]


def test_other_steps_of_the_same_text_replace_those_of_the_run(page: Any) -> None:
    whole = write(page)
    plain = gallery.baseline(NAME)
    assert plain is not None
    view = views.run_view(Summary(plain), run="one", seq=500, badge_text="live")
    state = show(page, view | {"again": "other steps"}, 300)
    assert state["tokens"] == sum(len(step["tokens"]) for step in whole["steps"])
    assert f"of {len(plain.steps)} · " in state["timeline"]


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_nothing_moves_when_the_speed_of_a_live_run_is_told(page: Any, width: int) -> None:
    """The sentence, the first round, a busy machine with its button."""
    page.set_viewport_size({"width": width, "height": 900})
    whole = write(page)
    trace, plain = gallery.trace(NAME), gallery.baseline(NAME)
    top = "document.querySelector('.ouro-board').getBoundingClientRect().top"
    before = page.evaluate(top)
    for each, more in (((3.31,), True), ((0.91, 0.93, 0.95), False)):
        summary = Summary(trace, plain, rounds=Speedup(each, more))
        view = views.run_view(summary, run="one", seq=len(each), badge_text="live", can_rerun=True)
        show(page, view | {"again": "same steps"})
        assert page.evaluate(top) == before
    assert "slower than plain decoding: 0.93×" in page.locator(".ouro-sentence").inner_text()
    assert page.locator(".ouro-beside").inner_text().startswith("Why: ")
    busy = {"words": "Speedup not shown: busy machine.", "label": "Measure again"}
    show(page, whole | {"notices": [busy | {"act": "again", "beside": True}]})
    assert page.get_by_role("button", name="Measure again").is_visible()
    assert page.evaluate(top) == before


def test_the_legend_has_no_hole_and_counts_rejected_guesses(page: Any) -> None:
    """The oracle is the run's steps."""
    whole = write(page)
    kept = [sum("node" in token for token in step["tokens"]) for step in whole["steps"]]
    rejected = [len(step["nodes"]) - n for step, n in zip(whole["steps"], kept, strict=True)]
    hidden = "items => items.map(item => item.hasAttribute('data-later'))"
    page.get_by_label("First moment (Home)").click()
    for number in range(len(rejected)):
        later = page.eval_on_selector_all(".ouro-legend > li", hidden)
        assert later == sorted(later), "entries come one behind the other"
        counted = int(page.locator(".ouro-key-mark b").text_content())
        assert counted == sum(rejected[: number + 1])
        page.get_by_label("One on (→)").click()


def test_a_term_is_explained_by_mouse_and_keyboard(page: Any) -> None:
    write(page)
    box = page.locator(".ouro-explanation")
    term = page.locator(".ouro-bars-title").get_by_role("button", name="Acceptance length")
    term.click()
    assert box.inner_text() == TERMS["acceptance length"]
    page.keyboard.press("Escape")
    assert not box.is_visible()
    page.locator(".ouro-tree-note").get_by_role("button", name="row").first.focus()
    page.keyboard.press("Enter")
    assert box.inner_text() == TERMS["row"]
    beside, below = box.bounding_box(), term.bounding_box()
    assert beside["x"] >= 0 and below, "inside the window"
    page.locator('.ouro-legend [data-look="draft"] button').click()
    assert box.inner_text() == views.legend()[0]["sentence"]


def test_who_waits_sees_the_place_in_the_queue_and_keeps_the_old_result(page: Any) -> None:
    whole = write(page)
    written = show(page, whole)["tokens"]
    page.evaluate("() => document.dispatchEvent(new CustomEvent('ouro:asked'))")
    waits = "Waiting for a turn: 2 runs come first …"
    state = show(page, {"run": "two waits", "waiting": waits})
    assert (state["status"], state["tokens"], state["old"]) == (waits, written, True)
    late = whole | {"timing": True, "status": "late", "seq": 600}
    assert show(page, late)["status"] == waits, "the timing of the old run says nothing now"
