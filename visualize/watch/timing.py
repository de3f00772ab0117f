"""A run on the page in two events: its text, and its timing in the background, which goes on until
a visitor asks for another run."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any

from ouroboros_core.errors import OuroborosError
from ouroboros_core.trace.summary import Summary
from visualize.kit.events import unchanged
from visualize.run import view as views
from visualize.run.view import View
from visualize.server.jobs import Update, Waiting
from visualize.server.log import describe
from visualize.watch.job import Finished, RunUpdate, Written
from visualize.watch.session import Order, Session


def stream(updates: Generator[Update, None, None], session: Session, order: Order) -> Iterator[Any]:
    """Yield the outputs `changing` of `WatchPanel._wire` after each update.

    An output that did not change is yielded again: the difference that Gradio sends is empty.
    """
    view: View = {}
    drawn: dict[str, Any] = {}
    for update in updates:
        session.take(update, order)
        if isinstance(update, Waiting):
            view = {"run": f"{update.name} waits", "waiting": update.status}
        elif isinstance(update, RunUpdate):
            view, drawn = update.view, drawn | _chart_views(update)
        if isinstance(update, Written):
            session.timing = updates  # `go_on` goes on with them
        yield view, drawn or unchanged()
        if isinstance(update, Written):
            return


def go_on(session: Session) -> Iterator[Any]:
    """Go on with the timing of the run that is shown, until a visitor asks for another one."""
    updates, order = session.timing, session.order
    if updates is None or order is None or session.trace is None:
        return
    complete = views.status_of(Summary(session.trace))
    view: View = {"run": order.run, "done": True}
    drawn: dict[str, Any] = {}
    waits = f"{complete}. Timing waits for other runs …"
    status = f"{complete}. Timing it …"
    try:
        for update in updates:
            if session.timing is not updates:
                return
            session.take(update, order)
            if isinstance(update, RunUpdate):
                view, drawn = update.view, drawn | _chart_views(update)
                status = view["status"]
            now = waits if isinstance(update, Waiting) else status
            timing = {"timing": not isinstance(update, Finished)}
            yield view | timing | {"status": now}, drawn or unchanged()
            view = view | {"again": None}  # once is enough
    except Exception as error:
        reason = str(error) if isinstance(error, OuroborosError) else describe(error)
        status = f"{complete}. The timing failed: {reason}"
        yield view | {"timing": False, "status": status}, drawn or unchanged()
    finally:  # also when the visitor leaves; the session is kept
        updates.close()


def _chart_views(update: RunUpdate) -> dict[str, Any]:
    seq, run = time.time_ns(), update.view["run"]
    return {
        name: {"seq": seq, "run": run, "figure": figure} for name, figure in update.charts.items()
    }
