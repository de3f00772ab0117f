"""A run in a browser while it is written and timed: a page from disk that gets the server's values.

The oracle is a recorded run, whose steps come one after the other.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.trace.summary import Summary
from tests.visitor import view_alone
from visualize.gallery import runs as gallery
from visualize.run import view as views
from visualize.run.components import TOKEN_VIEW

pytestmark = pytest.mark.browser

NAME = "java-ouroboros"
STATE = """() => {
  const text = (name) => document.querySelector('.ouro-' + name).textContent;
  const counts = [...document.querySelectorAll('.ouro-legend b')].map((b) => Number(b.textContent));
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
    begun = {key: whole[key] for key in ("run", "prompt", "chat", "badge", "title")}
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


def test_who_waits_sees_the_place_in_the_queue_and_keeps_the_old_result(page: Any) -> None:
    whole = write(page)
    written = show(page, whole)["tokens"]
    page.evaluate("() => document.dispatchEvent(new CustomEvent('ouro:asked'))")
    waits = "Waiting for a turn: 2 runs come first …"
    state = show(page, {"run": "two waits", "waiting": waits})
    assert (state["status"], state["tokens"], state["old"]) == (waits, written, True)
    late = whole | {"timing": True, "status": "late", "seq": 600}
    assert show(page, late)["status"] == waits, "the timing of the old run says nothing now"
