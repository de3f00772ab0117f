"""Runs and races, as generators of plain data: they may be carried out in another process (see
`lent`)."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from ouroboros_core.decoding import metrics
from ouroboros_core.words import counted
from visualize import figures, views
from visualize.server.models import Models
from visualize.server.updates import (
    Charts,
    Comparing,
    Finished,
    LaneFinished,
    Progress,
    RaceProgress,
    RaceUpdate,
    RunUpdate,
    Started,
    View,
    Written,
)

if TYPE_CHECKING:
    from ouroboros_core.decoding.equality import Divergence
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.decoding.trace import Step, Trace
    from ouroboros_core.lookup.memory import Memory

TEXT_INTERVAL = 1 / 16
TEXT_PAUSE, CHART_PAUSE = 0.02, 0.12
"""No clock runs meanwhile: so that sending an update, and on one's own machine drawing it, slows no
step down."""
STATUS_INTERVAL = 1 / 2


def draw_anew(steps: int, drawn: int) -> bool:
    """Whether charts of the first `drawn` steps are to be redrawn: once there are twice as many,
    so that all drawings of a run together send and cost about twice what the last one does."""
    return steps >= max(4, 2 * drawn)


class Compute:
    """What is done with a pair that is in memory."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def run(
        self,
        pair: str,
        task: Task,
        name: str,
        compare: bool,
        charts: bool,
        memory: Memory | None,
        known: Trace | None,
    ) -> Generator[RunUpdate, None, None]:
        """A task and then plain decoding, unless it is known already and was measured while the
        machine was as idle as now.

        memory  what the run starts with; Finished has it again, with what it has learned
        """
        from ouroboros_core.decoding.generation import Generation

        generation = Generation(self._models.loaded(pair), task, memory)
        live = _Live(generation, name, charts)
        yield live.started(memory)
        yield from live.progress()
        trace = generation.trace()
        baseline = None
        if compare and trace.steps and task.method != "autoregressive":
            yield live.written(trace)
            usable = known is not None and metrics.busy(trace, known) is None
            baseline = known if usable else (yield from _baseline(generation))
        yield live.finished(trace, baseline, memory)

    def race(
        self, pair: str, tasks: Sequence[tuple[str, Task]], name: str
    ) -> Generator[RaceUpdate, None, None]:
        """Named tasks in turn, the first of them plain decoding."""
        from ouroboros_core.decoding.generation import Generation

        here = self._models.loaded(pair)
        title = f"{here.target.name}, on {here.environment.where}"
        names = [lane for lane, _ in tasks]
        length = max(task.max_new_tokens for _, task in tasks)
        view: View = {"race": name, "badge": views.LIVE, "title": title}
        view |= {"names": names, "length": length, "done": False}
        lanes: list[View] = []
        baseline = None
        generations = [
            (lane, Generation(here, task)) for lane, task in tasks
        ]  # what cannot run is said before anything does
        for number, (lane, generation) in enumerate(generations):
            yield from _lane_progress(view, generation, number, len(tasks))
            trace = generation.trace()
            baseline = baseline or trace
            difference = judge(generation, trace, baseline) if number else None
            lanes.append(views.lane_view(lane, trace, baseline, difference))
            yield LaneFinished(trace, view | _lanes_view(lanes, len(tasks)))


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


class _Live:
    """Makes the updates of one run; of steps, those that were not sent yet."""

    def __init__(self, generation: Generation, name: str, charts: bool) -> None:
        self._generation, self._name, self._charts = generation, name, charts
        self._seq, self._sent = 1, 0

    def started(self, memory: Memory | None) -> Started:
        begun, task = self._generation.trace(), self._generation.task
        title = views.describe(
            begun.method, begun.hyperparameters, begun.target, begun.draft, begun.corpus
        )
        view = {
            "run": self._name,
            "badge": views.LIVE,
            "title": title,
            "prompt": task.prompt,
            "chat": task.chat,
            "seq": self._seq,
            "from": 0,
            "steps": [],
            "status": "Reading the prompt …",
            "tiles": [],
        }
        charts = dict.fromkeys(growing(()), figures.empty("The first step is under way."))
        return Started(self._name, begun, memory, view, charts)

    def progress(self) -> Generator[Progress, None, None]:
        """Generates; an update as often as the text is to move, and a pause behind it where there
        are charts."""
        steps, due, drawn = self._generation.steps, 0.0, 0
        for _ in self._generation:
            now = time.monotonic()
            if now < due:
                continue
            due = now + TEXT_INTERVAL
            charts: Charts = {}
            if self._charts and draw_anew(len(steps), drawn):
                drawn = len(steps)
                charts = growing(steps)
            yield self._new_steps(charts)
            if self._charts:
                time.sleep(CHART_PAUSE if charts else TEXT_PAUSE)

    def _new_steps(self, charts: Charts) -> Progress:
        generation = self._generation
        tokens = counted(len(generation.texts), "token")
        status = f"Step {len(generation.steps)}: {tokens}"
        self._seq += 1
        view = {
            "run": self._name,
            "seq": self._seq,
            "from": self._sent,
            "steps": views.steps_view(
                generation.steps,
                generation.texts,
                generation.task.sampling,
                generation.piece,
                self._sent,
            ),
            "status": status,
        }
        steps, texts, pieces = _grown(generation, self._sent)
        self._sent = len(generation.steps)
        return Progress(steps, texts, pieces, view, charts)

    def written(self, trace: Trace) -> Written:
        self._seq += 1
        view = views.run_view(
            trace,
            None,
            run=self._name,
            seq=self._seq,
            badge_text=views.LIVE,
            start=self._sent,
        )
        plain = self._generation.task.sampling.kind
        view |= {
            "status": f"{view['status']}. Now {plain}, to compare with …",
            "done": False,
        }
        return Written(trace, view, growing(trace.steps) if self._charts else {})

    def finished(self, trace: Trace, baseline: Trace | None, memory: Memory | None) -> Finished:
        difference = judge(self._generation, trace, baseline) if baseline else None
        view = views.run_view(
            trace,
            baseline,
            run=self._name,
            seq=self._seq + 1,
            badge_text=views.LIVE,
            difference=difference,
            live=True,
        )
        charts = all_charts(trace, baseline) if self._charts else {}
        return Finished(trace, baseline, difference, memory, view, charts)


def _lanes_view(lanes: Sequence[View], count: int) -> View:
    """What a race shows when a lane of so many has ended."""
    over = len(lanes) == count
    if not over:
        status = f"Lane {len(lanes)} of {count} has run."
    elif any(lane["busy"] for lane in lanes):
        status = (
            "All lanes have run; this is the replay. The machine was busy meanwhile: press "
            "Race to measure again."
        )
    else:
        status = "All lanes have run; this is the replay."
    return {
        "seq": time.time_ns(),
        "lanes": list(lanes),
        "status": status,
        "done": over,
        "play": over,
    }


def _baseline(generation: Generation) -> Generator[Comparing, None, Trace]:
    """The plain run of the same task. A generator, so that Stop reaches it."""
    plain = type(generation)(generation.pair, generation.task.plain())
    due = 0.0
    for _ in plain:
        now = time.monotonic()
        if now >= due:
            due = now + STATUS_INTERVAL
            yield Comparing()
    return plain.trace()


def _grown(
    generation: Generation, start: int
) -> tuple[tuple[Step, ...], tuple[str, ...], dict[int, str]]:
    """Steps from `start` on, the texts of their tokens, and the pieces of all tokens that occur in
    them."""
    steps = tuple(generation.steps[start:])
    count = sum(len(step.tokens) for step in steps)
    pieces = {token: generation.piece(token) for step in steps for token in step.occurring}
    return steps, tuple(generation.texts[len(generation.texts) - count :]), pieces


def judge(generation: Generation, trace: Trace, baseline: Trace) -> Divergence | None:
    """The first difference from plain decoding, where the two ought to be equal."""
    from ouroboros_core.decoding.equality import divergence

    return (
        divergence(generation.pair.target, trace, baseline)
        if generation.repeats_plain_text
        else None
    )


def growing(steps: Sequence[Step]) -> Charts:
    """The chart that grows with a run; the others are drawn at its end."""
    return {"acceptance": figures.acceptance_length(steps)}


def all_charts(trace: Trace, baseline: Trace | None) -> Charts:
    """The charts of a finished run."""
    speedup = (
        figures.speedup_by_token(trace, baseline)
        if baseline is not None and trace.steps
        else figures.empty("There is no plain run to compare with.")
    )
    return {
        **growing(trace.steps),
        "choices": figures.choices(trace.steps),
        "pool": figures.pool_growth(trace.steps),
        "time": figures.tokens_against_time(trace, baseline),
        "speedup": speedup,
        "where": figures.time_breakdown(trace, baseline),
        "positions": figures.acceptance_by_position(trace),
        "even": figures.break_even(trace, baseline),
    }
