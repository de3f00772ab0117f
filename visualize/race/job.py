"""What the page is sent of a race while it goes on, and what runs and races share."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from ouroboros_core.benchmark.protocol import Measured
from ouroboros_core.trace.summary import Summary
from ouroboros_core.words import counted
from visualize.run import view as views
from visualize.run.view import View
from visualize.server.updates import (
    Comparing,
    LaneFinished,
    RaceProgress,
    RaceUpdate,
)
from visualize.what_if import view as elsewhere

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Generation
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.trace import Trace

TEXT_INTERVAL = 1 / 16
"""Seconds from one update of the text to the next, at least."""
TEXT_PAUSE = 0.02
"""No clock runs meanwhile: so that sending an update, and on one's own machine drawing it, slows
fewer steps down."""
STATUS_INTERVAL = 1 / 2
PLAIN, METHOD = 0, 1
"""The lanes of a run that is compared."""


def draw_anew(steps: int, drawn: int) -> bool:
    """Whether charts of the first `drawn` steps are to be redrawn: once there are twice as many,
    so that all drawings of a run together send and cost about twice what the last one does."""
    return steps >= max(4, 2 * drawn)


def silently(generation: Generation) -> Generator[Comparing, None, Trace]:
    """A run that is not shown. A generator, so that Stop reaches it."""
    due = 0.0
    for _ in generation:
        now = time.monotonic()
        if now >= due:
            due = now + STATUS_INTERVAL
            yield Comparing()
    return generation.trace()


def _lane_progress(
    view: View, generation: Generation, number: int, count: int
) -> Generator[RaceProgress, None, None]:
    """Generates a lane; says that it begins, and then as often as the text is to move which steps
    are new. No clock runs meanwhile, and a pause follows, as in a run."""
    lane = f"Lane {number + 1} of {count}, {view['names'][number]}"
    sent, due = 0, 0.0

    def progress(status: str) -> RaceProgress:
        steps = views.steps_view(
            generation.steps,
            generation.texts,
            generation.task.sampling,
            generation.piece,
            sent,
        )
        more = {"lane": number, "from": sent, "steps": steps, "status": f"{lane}: {status}"}
        return RaceProgress({**view, "seq": time.time_ns(), **more})

    yield progress("reading the prompt …")
    for _ in generation:
        now = time.monotonic()
        if now < due:
            continue
        due = now + TEXT_INTERVAL
        passes = len(generation.steps)
        done = counted(len(generation.texts), "token")
        yield progress(f"{done} in {passes} forward {'pass' if passes == 1 else 'passes'}")
        sent = passes
        time.sleep(TEXT_PAUSE)


class Race:
    """Makes the updates of a race: of a lane while it runs in the first round, and of all behind
    every round."""

    def __init__(
        self, view: View, generations: Sequence[Generation], refused: Mapping[str, str]
    ) -> None:
        """refused: by name, why a lane could not run."""
        self._view, self._generations, self._refused = view, generations, refused
        self._traces: list[Trace] = []
        self._differences: list[Divergence | None] = []

    def run(self, number: int, lane: int) -> Generator[RaceUpdate, None, Trace]:
        """A lane of a round, for `protocol.measure`."""
        shown, count = self._generations[lane], len(self._generations)
        if number:
            from ouroboros_core.decoding.generation import Generation

            return (yield from silently(Generation(shown.pair, shown.task)))
        yield from _lane_progress(self._view, shown, lane, count)
        trace = shown.trace()
        self._traces.append(trace)
        self._differences.append(judge(shown, trace, self._traces[0]) if lane else None)
        known = Measured.once(*self._traces)
        status = f"Lane {lane + 1} of {count} has run."
        yield LaneFinished(trace, self._view | self._lanes(known) | {"status": status})
        return trace

    def measured(self, found: Measured) -> RaceProgress:
        """A round has ended, and perhaps the race."""
        lanes = self._lanes(found)
        if found.more:
            status = f"All lanes have run; {found.doing} …"
        elif any(lane["busy"] for lane in lanes["lanes"]):
            status = (
                "All lanes have run; this is the replay. The machine was busy meanwhile: press "
                "Race to measure again."
            )
        else:
            status = "All lanes have run; this is the replay."
        if not found.more:
            for name, reason in self._refused.items():
                status += f" Left out: {name} ({reason})."
        over = {"done": not found.more, "play": not found.more}
        return RaceProgress(self._view | lanes | over | {"status": status})

    def _lanes(self, found: Measured) -> View:
        """The lanes that have run, with their medians; what is replayed is what was seen."""
        runs = [found.run(lane) for lane in range(len(self._traces))]
        runs = [
            run if same_steps(run, seen) else seen
            for run, seen in zip(runs, self._traces, strict=True)
        ]
        lanes = [
            views.lane_view(name, Summary(run, runs[0], difference, found.speedup(lane)))
            | {"modelled": elsewhere.clocks(run)}
            for lane, (name, run, difference) in enumerate(
                zip(self._view["names"], runs, self._differences, strict=False)
            )
        ]
        return {"seq": time.time_ns(), "lanes": lanes}


def same_steps(trace: Trace, other: Trace) -> bool:
    """Whether two runs wrote the same tokens in the same steps; their seconds are their own."""
    return [step.tokens for step in trace.steps] == [step.tokens for step in other.steps]


def judge(generation: Generation, trace: Trace, baseline: Trace) -> Divergence | None:
    """The first difference from plain decoding, where the two ought to be equal."""
    from ouroboros_core.trace.equality import divergence

    return divergence(generation.target, trace, baseline) if generation.repeats_plain_text else None
