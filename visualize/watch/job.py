"""A run as a job: shown while it computes, then timed against plain decoding."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS, Measured, RunLane, measure
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.messages import counted
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Step, Trace
from visualize.run import figures, live, permalink
from visualize.run import view as views
from visualize.run.live import Charts
from visualize.run.view import View
from visualize.server.jobs import Turn, Update
from visualize.server.queue import Rank

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

SMALL_MODEL = "a small model"

UNHURRIED = 5
"""A run that is shown is timed once more if its time, which a lent GPU limits, allows this many of
its kind: plain decoding may take three times as long."""
PLAIN, METHOD = 0, 1
"""The lanes of a run that is compared."""


@dataclass(frozen=True, kw_only=True)
class RunUpdate(Update):
    """Base of the updates that change the picture of a run."""

    view: View
    charts: Charts = field(default_factory=dict)


@dataclass(frozen=True)
class Started(RunUpdate):
    """A run computes now. `trace` has no steps; the run starts with `memory`."""

    name: str
    trace: Trace
    memory: Memory | None


@dataclass(frozen=True)
class Progress(RunUpdate):
    """New steps of a run, the texts of their tokens, and the pieces of all tokens in them."""

    new_steps: tuple[Step, ...]
    new_texts: tuple[str, ...]
    pieces: dict[int, str]


@dataclass(frozen=True)
class Written(RunUpdate):
    """The text of a run is complete. Its timing follows, and gives way to all runs."""

    rank = Rank.TIMING
    trace: Trace
    memory: Memory | None


@dataclass(frozen=True)
class Compared(RunUpdate):
    """A round has ended, and another one begins. The two traces have the median speedup."""

    pausable = True
    trace: Trace
    baseline: Trace
    difference: Divergence | None
    speedup: Speedup


@dataclass(frozen=True)
class Finished(RunUpdate):
    """A run has ended. `memory` has learned from it; without comparison there is no speedup."""

    trace: Trace
    baseline: Trace | None
    difference: Divergence | None
    memory: Memory | None
    speedup: Speedup | None = None


@dataclass(frozen=True)
class RunJob(live.TimedJob):
    """Run a task, and time it against plain decoding.

    The run that is shown does not count: a browser on the same machine takes processor time to
    draw it. (On two cores a run had 32 tokens a second while it was drawn, and 57
    otherwise.) If nobody draws it, or time is short, it is the first run that counts.

    task         the run
    compare      whether to time it against plain decoding
    charts       whether a page draws it
    find_memory  returns the method's memory of earlier runs, for a warm start
    memory       the result of `find_memory`

    Updates: one Started, any number of Progress; then Written, Comparing and Compared if it is
    compared; one Finished. A run that is stopped or fails has no Finished. From Written on it gives
    way to all runs; a timed run that is disturbed is repeated.
    """

    kind = "run"
    task: Task
    compare: bool
    charts: bool = True
    find_memory: Callable[[Pair], Memory | None] | None = None
    memory: Memory | None = None

    @property
    def tasks(self) -> list[Task]:
        return [self.task, self.task]

    @property
    def rounds(self) -> int:
        return ROUNDS if self.compare else 0

    @property
    def cost(self) -> float:
        return self.task.max_new_tokens

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "method": self.task.method,
            "knobs": self.task.hyperparameters.model_dump(),
            "max_new_tokens": self.task.max_new_tokens,
            "temperature": self.task.sampling.temperature,
            "chat": self.task.chat,
        }

    def prepared(self, pair: Pair) -> Self:
        memory = self.find_memory(pair) if self.find_memory else self.memory
        return replace(self, memory=memory, find_memory=None)

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        memory, rounds = self.memory, self.rounds
        memory_before = copy.deepcopy(memory)
        generation = Generation(pair, self.task, memory)
        updates = Live(generation, turn.name, self.charts, warm=memory is not None)
        yield updates.started(memory)
        # The run that is updates.
        began = time.monotonic()
        yield from updates.progress()
        took = time.monotonic() - began
        counts = not self.charts or turn.seconds < UNHURRIED * took
        is_plain = self.task.method == methods.PLAIN
        if not rounds or (is_plain and counts):
            yield updates.finished(None, memory)
            return
        yield updates.written(memory)
        # The runs that are timed.
        run = _lanes_of_run(generation, memory_before, counts, turn)
        if is_plain:
            timed = yield from run(0, METHOD)
            yield updates.finished(None, memory, timed)
            return
        left = turn.seconds - (2 if counts else 1) * took  # the first round must fit in
        first = METHOD if counts else PLAIN
        rounds_of_both = measure(2, run, rounds=rounds, first=first, seconds=left, clock=turn.clock)
        for update in rounds_of_both:
            if not isinstance(update, Measured):
                yield update
            elif update.more:
                yield updates.compared(update)
            else:
                yield updates.finished(update, memory)


class Live:
    """Makes the updates of one run; each has only steps that were not sent yet."""

    def __init__(
        self, generation: Generation, name: str, charts: bool, *, warm: bool = False
    ) -> None:
        """warm: whether the run starts with what earlier runs have left"""
        self.generation, self._name, self._charts = generation, name, charts
        conditions = {
            "without the checkpoint's settings": not generation.task.generation_config,
            "warm start": warm,
            SMALL_MODEL: generation.pair.small,
        }
        self._conditions = [
            views.condition(words, changed=words != SMALL_MODEL)
            for words, holds in conditions.items()
            if holds
        ]
        self._seq, self._sent = 1, 0
        self._shown: Trace | None = None

    def started(self, memory: Memory | None) -> Started:
        trace, task = self.generation.trace(), self.generation.task
        view = {
            "run": self._name,
            "badge": views.LIVE,
            **self._captioned(views.caption(trace)),
            "asked": permalink.of_task(task).asked,
            "seq": self._seq,
            "from": 0,
            "steps": [],
            "status": "Reading the prompt …",
            "tiles": [],
            "charts": figures.begun_charts(),
        }
        facts = {"prompt_tokens": len(trace.prompt.tokens)}
        return Started(self._name, trace, memory, view=view, facts=facts)

    def progress(self) -> Generator[Progress, None, None]:
        """Generate; yield new steps as often as the text may move.

        If there are charts, a pause follows each update. `written` or `finished` bring the rest.
        """
        for _ in live.paced(self.generation):
            yield self._new_steps()
            if self._charts:
                time.sleep(live.TEXT_PAUSE)

    def _new_steps(self) -> Progress:
        generation = self.generation
        tokens = counted(len(generation.texts), "token")
        self._seq += 1
        view = {
            "run": self._name,
            "seq": self._seq,
            "from": self._sent,
            "steps": live.steps_from(generation, self._sent),
            "status": f"Step {len(generation.steps)}: {tokens}",
        }
        steps = tuple(generation.steps[self._sent :])
        self._sent = len(generation.steps)
        count = sum(len(step.tokens) for step in steps)
        return Progress(
            new_steps=steps,
            new_texts=tuple(generation.texts[len(generation.texts) - count :]),
            pieces={token: generation.piece(token) for step in steps for token in step.occurring},
            view=view,
            tokens=len(generation.texts),
            steps=len(generation.steps),
        )

    def written(self, memory: Memory | None) -> Written:
        trace = self.generation.trace()
        summary = Summary(trace)
        view = self._view(summary, start=self._sent)
        view |= {"status": f"{view['status']}. Timing it …", "timing": True}
        if not trace.is_plain:
            view["notices"] = [*view["notices"], views.quiet("Its speed is measured now.")]
        charts = figures.more_charts(summary) if self._charts else {}
        tokens, steps = len(trace.tokens), len(trace.steps)
        return Written(trace, memory, view=view, charts=charts, tokens=tokens, steps=steps)

    def compared(self, rounds: Measured) -> Compared:
        """Return the speedup so far, while another round is measured."""
        trace, baseline, difference = self._median_runs(rounds)
        assert baseline is not None
        speedup = rounds.speedup(METHOD)
        summary = Summary(trace, baseline, difference, speedup)
        view = self._view(summary)
        doing = f"{rounds.doing[0].upper()}{rounds.doing[1:]}"
        steady = [notice for notice in view["notices"] if notice.get("act") != views.AGAIN]
        if rounds.busy:
            steady.append(views.quiet(rounds.busy))
        view |= {"status": f"{view['status']}. {doing} …", "notices": steady, "timing": True}
        charts = figures.more_charts(summary) if self._charts else {}
        return Compared(trace, baseline, difference, speedup, view=view, charts=charts)

    def finished(
        self, rounds: Measured | None, memory: Memory | None, timed: Trace | None = None
    ) -> Finished:
        """Return the last update.

        rounds  None if the run is not compared
        timed   then, the run that was timed, if another one was shown
        """
        trace, baseline, difference = self._median_runs(rounds)
        trace = timed or trace
        speedup = rounds.speedup(METHOD) if rounds else None
        summary = Summary(trace, baseline, difference, speedup)
        view = self._view(summary)
        charts = figures.more_charts(summary) if self._charts else {}
        return Finished(
            trace,
            baseline,
            difference,
            memory,
            speedup,
            view=view,
            charts=charts,
            tokens=len(trace.tokens),
            steps=len(trace.steps),
            facts={"ending": trace.ending},
        )

    def _view(self, summary: Summary, start: int = 0) -> View:
        """Return a complete run from a step on, compared with what the page shows already."""
        shown, self._shown = self._shown, summary.trace
        self._seq += 1
        view = views.run_view(
            summary,
            run=self._name,
            seq=self._seq,
            badge_text=views.LIVE,
            start=start,
            can_rerun=True,
        )
        if shown is not None:
            same = [s.tokens for s in shown.steps] == [s.tokens for s in summary.trace.steps]
            view |= {"again": "same steps" if same else "other steps"}
        return self._captioned(view)

    def _captioned(self, view: View) -> View:
        """Return a view with what its trace does not say of the conditions."""
        return view | {"conditions": [*view["conditions"], *self._conditions]}

    def _median_runs(
        self, rounds: Measured | None
    ) -> tuple[Trace, Trace | None, Divergence | None]:
        """Return the two runs of the median speedup, and how their texts differ.

        If it wrote another text than the run that was seen, as a rule may allow, that one stays.
        """
        seen = self.generation.trace()
        if rounds is None:
            return seen, None, None
        baseline, trace = rounds.middle(METHOD).traces
        trace = trace if trace.tokens == seen.tokens else seen
        return trace, baseline, live.difference_from_plain(self.generation, trace, baseline)


def _lanes_of_run(
    generation: Generation, memory: Memory | None, counts: bool, turn: Turn
) -> RunLane[Update]:
    """Return the lanes of a run that is compared: plain decoding, and the method.

    generation  the run that was shown
    memory      of the method at the start of every round
    counts      whether the run that was shown is the first of its lane
    """

    def run(number: int, lane: int) -> Generator[Update, None, Trace]:
        if counts and lane == METHOD and number == 0:
            return generation.trace()
        task = generation.task if lane == METHOD else generation.task.plain()

        def make() -> Generation:
            start = copy.deepcopy(memory) if lane == METHOD else None
            return Generation(generation.pair, task, start)

        return (yield from live.silently(make, turn))

    return run
