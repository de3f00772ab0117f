"""A run on another machine, on the page: what is asked is priced, and called modelled."""

import re
from typing import Any

import pytest

from ouroboros_core.what_if import machines
from visualize.gallery import runs as gallery
from visualize.watch.tab import RECORDED
from visualize.what_if import view as what_if_view

ASKED = {"machine": "a100", "target": "llama-3-8b", "draft": "usual", "batch": 4}


def test_the_view_shows_what_the_core_models() -> None:
    trace = gallery.trace("java-ouroboros")
    shown = what_if_view.view(trace, ASKED)
    found = machines.quote(trace, machines.machine("a100"), "llama-3-8b", batch=4)
    assert shown["said"] == found.sentence and found.sentence.startswith("Modelled: on A100")
    run, plain = shown["time"]["data"]
    assert run["x"][-1] == pytest.approx(found.priced.seconds)
    assert plain["x"][-1] == pytest.approx(found.priced.plain_seconds)
    assert run["y"][-1] == plain["y"][-1] == len(trace.tokens)
    (line,) = shown["batch"]["data"]
    assert line["y"][line["x"].index("4")] == pytest.approx(found.priced.speedup)


def test_a_head_stays_the_head_of_the_target_in_every_batch() -> None:
    shown = what_if_view.view(gallery.trace("sleep-eagle3"), ASKED)
    (line,) = shown["batch"]["data"]
    found = machines.quote(gallery.trace("sleep-eagle3"), machines.machine("a100"), "llama-3-8b")
    assert found.draft is not None and found.draft.name == "head of Llama-3 8B"
    assert line["y"][0] == pytest.approx(found.priced.speedup)


def test_a_number_that_is_changed_counts_in_the_unit_that_is_shown() -> None:
    changed = {"machine": {"bandwidth": 1000}, "draft": {"bytes_per_parameter": 0.5}}
    found = what_if_view.quoted(gallery.trace("java-ouroboros"), {**ASKED, "numbers": changed})
    assert found.machine.bandwidth == 1e12
    assert found.draft is not None and found.draft.bytes_per_parameter == 0.5
    assert found.target == machines.model("llama-3-8b")


def test_the_numbers_of_what_drafts_in_the_run_are_those_that_count() -> None:
    """A head's, which no sheet has; and of the run's own models those of its models."""
    head = what_if_view.view(gallery.trace("sleep-eagle3"), ASKED)["models"]["draft"]
    assert head["name"] == "head of Llama-3 8B" and head["numbers"]["layers"] == 1
    halved = {"draft": {"bytes_per_parameter": 1}}
    asked = {**ASKED, "numbers": halved}
    found, whole = (
        what_if_view.quoted(gallery.trace("sleep-eagle3"), one).draft for one in (asked, ASKED)
    )
    assert found and whole and found.weight_bytes == whole.weight_bytes / 2
    own = {**ASKED, "target": "own", "draft": "own"}
    shown = what_if_view.view(gallery.trace("java-speculative"), own)["models"]
    assert [one["name"] for one in shown.values()] == ["Qwen2.5 1.5B", "Qwen2.5 0.5B"]
    assert shown["target"]["numbers"]["parameters"] == 1.5436
    assert set(what_if_view.view(gallery.trace("river-sam"), own)["models"]) == {"target"}


def test_a_head_is_one_of_the_target_that_was_changed() -> None:
    trace = gallery.trace("sleep-eagle3")
    halved = {"target": {"bytes_per_parameter": 1}}
    found = what_if_view.quoted(trace, {**ASKED, "numbers": halved})
    assert found.draft == found.target.head and found.draft.bytes_per_parameter == 1
    shown = what_if_view.view(trace, {**ASKED, "numbers": halved})["models"]
    assert shown["draft"]["numbers"]["bytes_per_parameter"] == 1
    assert shown["target"]["numbers"]["bytes_per_parameter"] == 2, "the sheet's, below the change"


@pytest.mark.parametrize("name", ["java-speculative", "java-ouroboros", "river-sam"])
@pytest.mark.parametrize("machine", ["laptop", "h100"])
def test_the_parts_of_a_run_add_up_as_they_are_shown(name: str, machine: str) -> None:
    rows = what_if_view.view(gallery.trace(name), {**ASKED, "machine": machine, "batch": 1})["rows"]
    for column in (1, 2):
        shown = [row[column].split() for row in rows]
        assert len({unit for _, unit in shown}) == 1
        *parts, whole = (float(number) for number, _ in shown)
        assert sum(parts) == pytest.approx(whole, abs=1e-9) and min(parts) >= 0


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"machine": "x"}, "there is no machine 'x'"),
        ({"batch": "many"}, "the batch must be a whole number, got many"),
        ({"batch": 65}, "between 1 and 64, got 65"),
        ({"numbers": {"machine": {"bandwidth": None}}}, "bandwidth, GB/s must be a number"),
        ({"numbers": {"target": {"layers": 0}}}, "layers of Llama-3 8B: .* got 0"),
        ({"numbers": {"target": {"colour": 1}}}, "no number 'colour'"),
    ],
)
def test_what_cannot_be_priced_is_said_in_its_place(asked: dict[str, Any], problem: str) -> None:
    shown = what_if_view.view(gallery.trace("java-speculative"), {**ASKED, **asked})
    assert re.search(problem, shown["problem"]) and "said" not in shown


def test_who_is_faster_depends_on_the_machine() -> None:
    lane, plain = (gallery.trace(f"bank-{name}") for name in ("lookahead", "autoregressive"))
    mine, theirs = what_if_view.clocks(lane), what_if_view.clocks(plain)
    assert mine["h100"][-1] < theirs["h100"][-1]
    assert mine["h100-32"][-1] > theirs["h100-32"][-1]
    assert len(mine["h100"]) == len(lane.steps) and mine["h100"] == sorted(mine["h100"])
    assert [name for name, _ in what_if_view.clock_names()] == list(mine)


@pytest.mark.browser
@pytest.mark.embedded
def test_another_machine_is_chosen_and_changed_in_watch(page: Any) -> None:
    page.locator(".ouro-details > summary").click()
    page.get_by_role("button", name="Another machine", exact=True).click()
    view = page.locator("#chart-what_if")
    view.scroll_into_view_if_needed()
    trace = gallery.trace(RECORDED)

    def shows(asked: dict[str, Any]) -> None:
        view.get_by_text(what_if_view.view(trace, asked)["said"], exact=True).wait_for()

    chosen = what_if_view.choices()["chosen"]
    shows(chosen)
    view.get_by_label("machine", exact=True).select_option("laptop")
    shows({**chosen, "machine": "laptop"})
    view.get_by_text("Every number").click()
    view.get_by_label("machine: memory bandwidth, GB/s").fill("50")
    shows({**chosen, "machine": "laptop", "numbers": {"machine": {"bandwidth": 50}}})
    view.get_by_label("machine: memory bandwidth, GB/s").fill("0")
    view.get_by_text("bandwidth of a laptop (Apple M2): Input should be greater than 0").wait_for()
    assert not view.locator(".ouro-what-if-charts").is_visible()
    page.evaluate("document.querySelector('#token-view .ouro-run').dataset.unsaved = 'true'")
    view.get_by_text("The server does not have this run").wait_for()  # nor prices another one
    assert not view.locator(".ouro-what-if-charts").is_visible()
    page.evaluate("document.querySelector('#token-view .ouro-run').dataset.unsaved = 'false'")
    view.get_by_label("machine", exact=True).select_option("a100")
    shows({**chosen, "machine": "a100"})
    view.get_by_label("target model", exact=True).select_option("own")
    own = {**chosen, "machine": "a100", "target": "own"}
    shows(own)
    view.get_by_label("target: layers").fill("14")
    shows({**own, "numbers": {"target": {"layers": 14}}})
    assert view.get_by_label("target: layers").input_value() == "14", "what is typed stays"
    view.get_by_label("draft: layers").fill("1")
    changed = {"target": {"layers": 14}, "draft": {"layers": 1}}
    shows({**own, "numbers": changed})
    view.get_by_label("draft model", exact=True).select_option("own")
    shows({**own, "draft": "own", "numbers": {"target": {"layers": 14}}})
    of_draft = machines.model("qwen2.5-0.5b").layers
    assert view.get_by_label("draft: layers").input_value() == str(of_draft), "as it is priced"


@pytest.mark.browser
@pytest.mark.embedded
def test_another_machine_is_used_by_keyboard_on_a_phone(page: Any) -> None:
    """What the page says is what the model of the machine gives for the same choice."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".ouro-details > summary").press("Enter")
    page.get_by_role("button", name="Another machine", exact=True).press("Enter")
    view = page.locator("#chart-what_if")
    machine = view.get_by_label("machine", exact=True)
    machine.focus()
    first = machine.input_value()
    page.keyboard.press("ArrowDown")
    asked = what_if_view.choices()["chosen"] | {"machine": machine.input_value()}
    assert asked["machine"] != first
    told = what_if_view.view(gallery.trace(RECORDED), asked)["said"]
    view.get_by_text(told, exact=True).wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "target model"
    fold = view.locator(".ouro-what-if-fold > summary")
    fold.press("Enter")
    number = view.get_by_label("machine: memory bandwidth, GB/s")
    number.press("Control+a")
    page.keyboard.type("50")
    changed = asked | {"numbers": {"machine": {"bandwidth": 50}}}
    told = what_if_view.view(gallery.trace(RECORDED), changed)["said"]
    view.get_by_text(told, exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    fields = view.locator("select, .ouro-what-if-number input").locator("visible=true").all()
    for box in (field.bounding_box() for field in fields):
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
