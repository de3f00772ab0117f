"""The runs of a visit: a card for each, which the browser keeps with the run's file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ouroboros_core.errors import InvalidInput
from ouroboros_core.trace.file import MAX_BYTES, read_run
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from visualize.kit import labels
from visualize.kit.events import unchanged
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.run.strip import strip
from visualize.run.view import View
from visualize.watch.session import Session

MOST_ROUNDS = 16


class VisitView(JsonHTML):
    """A strip of cards. Triggers `show_run` with {run}, and `compare_runs` with {a, b}, each of
    them {file, each, key}.

    Value: a `card`, or {seq, refused}, why a click shows nothing. The browser keeps the cards for a
    reload; the server keeps no run."""

    VIEW = markup("watch/visit_view", "show_run", "compare_runs")


@dataclass(frozen=True)
class VisitRun:
    """A run of a visit, with the plain run of the same round and the speedups of all rounds.

    key: identifies its card; if empty, the run does
    """

    trace: Trace
    baseline: Trace | None = None
    speedup: Speedup | None = None
    key: str = ""


def card(run: VisitRun) -> View:
    """Return the card of a run. A later card with the same `key` replaces it."""
    trace, baseline, speedup = run.trace, run.baseline, run.speedup
    summary = Summary(trace, baseline, rounds=speedup)
    key = run.key or f"{trace.created} {trace.method}"
    each = list(speedup.each) if speedup else []
    return {
        "seq": time.time_ns(),
        "key": key,
        "at": trace.created[11:16],
        "name": labels.run(trace.method, trace.hyperparameters),
        "prompt": trace.prompt.text[:200],
        "pace": f"{summary.tokens_per_pass:.2f} tokens per pass",
        "speedup": _speedup(summary),
        "busy": summary.busy is not None or summary.is_provisional,
        "strip": strip(trace),
        "run": {"file": trace.to_json(baseline), "each": each, "key": key},
    }


def _speedup(summary: Summary) -> str:
    """Return the speedup; on a busy machine also the passes, which no other load changes."""
    if summary.speedup is None:
        return ""
    if summary.busy:
        return f"{summary.speedup:.2f}×, noisy machine: {summary.steps} passes"
    return summary.rounds.words if summary.rounds else f"{summary.speedup:.2f}×"


def card_of(session: Session) -> Any:
    trace, order = session.trace, session.made
    if trace is None or order is None or not trace.steps:
        return unchanged()
    return card(VisitRun(trace, session.baseline, session.speedup, order.run))


def read(run: Any) -> VisitRun:
    """Return the run that the browser kept; raises InvalidInput, as for a file that is opened."""
    names = ("file", "each", "key")
    file, each, key = (run.get(name) if isinstance(run, dict) else None for name in names)
    if not isinstance(file, str) or len(file) > MAX_BYTES or not isinstance(each, list):
        raise InvalidInput("the page sent no run: reload it")
    rounds = [value for value in each[:MOST_ROUNDS] if isinstance(value, int | float)]
    speedup = Speedup(tuple(map(float, rounds))) if rounds else None
    return VisitRun(*read_run(file), speedup, str(key or "")[:100])
