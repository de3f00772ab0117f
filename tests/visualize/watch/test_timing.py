"""The timing of a run in the background, as the page asks for it: two events of Gradio, of which
the second may be closed at any time."""

from itertools import islice
from typing import Any

import pytest

from ouroboros_core.errors import InvalidInput
from tests.visualize.jobs import make_task, run
from visualize.gallery import runs as gallery
from visualize.kit.events import unchanged
from visualize.server.runner import Runner
from visualize.watch import timing, visit
from visualize.watch.job import Finished
from visualize.watch.session import Order, Session


@pytest.fixture
def complete(runner: Runner) -> Session:
    """Return the session of a visitor whose run is complete and not timed yet."""
    session, order = Session(), Order(make_task())
    session.place(order)
    updates = run(runner, order.task, compare=True)
    views = [view for view, *_ in timing.stream(updates, session, order)]
    assert views[-1]["done"] and views[-1]["timing"], "the first event ends at the last token"
    assert sum(len(step["tokens"]) for view in views for step in view["steps"]) == 12
    return session


def test_the_timing_follows_in_an_event_of_its_own(complete: Session) -> None:
    untimed = complete.trace
    views: list[dict[str, Any]] = [view for view, *_ in timing.go_on(complete)]
    assert [view["timing"] for view in views] == [True] * (len(views) - 1) + [False]
    assert all(view["done"] and view["status"] for view in views)
    assert complete.speedup is not None and complete.order is None
    assert views[-1]["tiles"][1]["value"] == complete.speedup.words
    assert complete.trace is not untimed, "the timed run is the one that is shown"


def test_a_visitor_who_leaves_ends_the_timing(runner: Runner, complete: Session) -> None:
    """The session lasts an hour. A ticket left in the queue would stop every later timing."""
    timed = timing.go_on(complete)
    next(timed)
    timed.close()  # type: ignore[attr-defined]
    later = islice(run(runner, make_task(), compare=True), 200)
    assert any(isinstance(update, Finished) for update in later)


def test_another_run_is_shown_only_when_the_text_is_complete_and_keeps_its_own_card(
    runner: Runner, complete: Session
) -> None:
    """Until then a click on a card, a row or a link is refused; later it ends the timing, and the
    card of the run that was timed stays as it is."""
    other, order = gallery.trace("java-union"), Order(make_task())
    writing = Session()
    writing.place(order)
    for update in run(runner, order.task, compare=False):
        if not isinstance(update, Finished):
            with pytest.raises(InvalidInput, match="Your run is under way, and stays"):
                writing.open(other, None)
            assert not writing.preview("java-union", other, None)
            assert writing.trace is not other
        writing.take(update, order)
    writing.open(other, None)
    assert visit.card_of(complete)["prompt"] == order.task.prompt
    timed = timing.go_on(complete)
    next(timed)
    complete.open(other, None, recorded="java-union")
    assert list(timed) == [] and complete.trace is other and complete.order is None
    assert visit.card_of(complete) == unchanged(), "no card of the timed run has another run"


def test_the_next_run_of_a_visitor_ends_the_timing_of_the_last_one(complete: Session) -> None:
    timed = timing.go_on(complete)
    next(timed)
    complete.place(Order(make_task(prompt="the mat")))
    assert list(timed) == [] and complete.speedup is None
