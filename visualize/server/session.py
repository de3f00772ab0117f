"""The state of one visitor: every browser session has its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import of_kind
from ouroboros_core.trace.trace import Trace
from visualize.run import view as views
from visualize.server.updates import (
    Compared,
    Comparing,
    Finished,
    Progress,
    RunUpdate,
    Started,
    Waiting,
    Written,
)
from visualize.what_if import view as elsewhere

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory
    from ouroboros_core.sweeps.sweep import Run, Sweep
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.summary import Speedup
    from ouroboros_core.trace.trace import Step

KEPT = 8
"""Finished runs that are remembered for comparison."""


@dataclass
class Swept:
    """A sweep, and of each cell the latest run with its plain one.

    priced  of each cell what every run would take on other machines
    clock   the one that the charts are seen on; empty for this machine's, which is measured
    """

    sweep: Sweep
    traces: dict[int, tuple[Trace, Trace]] = field(default_factory=dict)
    priced: dict[int, list[dict[str, elsewhere.Taken]]] = field(default_factory=dict)
    clock: str = ""

    def add(self, run: Run) -> None:
        """A run has ended."""
        point, trace, plain = run
        self.traces[point.cell] = trace, plain
        self.priced.setdefault(point.cell, []).append(elsewhere.taken(trace))


@dataclass
class Asked:
    """A run that a visitor asked for: what and how, and the name under which its text is on the
    screen, empty until it is."""

    task: Task
    pair: str = ""
    warm: bool = False
    run: str = ""
    failed: bool = False


@dataclass
class Session:
    """memories: what was kept for a warm start, by method, shape and tokenizer; kept: runs by what
    they are called; asked: the run under way; ran: the last one that began; begun, steps, texts,
    pieces: of a run that has not ended; previewing: whether a recorded run stands there; the rest:
    what Watch shows."""

    memories: dict[Any, Memory] = field(default_factory=dict)
    kept: dict[str, Trace] = field(default_factory=dict)
    asked: Asked | None = None
    ran: Asked | None = None
    begun: Trace | None = None
    steps: list[Step] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pieces: dict[int, str] = field(default_factory=dict)
    trace: Trace | None = None
    baseline: Trace | None = None
    difference: Divergence | None = None
    speedup: Speedup | None = None
    swept: Swept | None = None
    previewing: bool = False

    def begin(self, begun: Trace) -> None:
        """A run has begun; until it ends, or if it is stopped, what it has written so far is what
        is shown."""
        self.show(None, None)
        self.begun = begun

    def grow(self, steps: Sequence[Step], texts: Sequence[str], pieces: Mapping[int, str]) -> None:
        """What it has written meanwhile."""
        self.steps += steps
        self.texts += texts
        self.pieces |= pieces

    def ask(self, asked: Asked) -> None:
        """A run is asked for; what any other one still says no longer counts."""
        self.asked = asked

    def take(self, update: RunUpdate, asked: Asked) -> None:
        """What an update says of a run that this visitor asked for, unless it was left
        meanwhile."""
        if self.asked is not asked:
            return
        match update:
            case Waiting(name=name):
                asked.run = name
            case Started():
                asked.run, self.ran = update.name, asked
                self.begin(update.trace)
                self._learn(update.trace.method, update.memory)
            case Progress():
                self.grow(update.steps, update.texts, update.pieces)
            case Written(trace=trace):
                self.show(trace, None)
            case Comparing():
                pass
            case Compared():
                self.show(update.trace, update.baseline, update.difference, update.speedup)
            case Finished():
                self.asked = None
                self.show(update.trace, update.baseline, update.difference, update.speedup)
                self.keep(update.trace)
                self._learn(update.trace.method, update.memory)

    def _learn(self, method: str, memory: Memory | None) -> None:
        """Keep what a run has learned for the next one, where that is asked for."""
        if memory is not None:
            self.memories[self._memory_key(method, memory)] = memory

    def leave(self) -> Asked | None:
        """The run under way is stopped or has failed: what it has written stays, and is what is
        shown."""
        asked, self.asked = self.asked, None
        if asked is not None and asked is self.ran and self.trace is not None:
            self.keep(self.trace)
        return asked

    def memory(self, task: Task, pair: Pair) -> Memory | None:
        """What this visitor's own runs of a method have left, for such settings and this tokenizer;
        None for a method that keeps nothing."""
        fresh = methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
        if fresh is None:
            return None
        return self.memories.get(self._memory_key(task.method, fresh), fresh)

    def remember(self, task: Task, pair: Pair, memory: Memory) -> None:
        """Begin the next warm runs of such a task with what is handed over; raises InvalidInput
        where it is of another kind, other settings or another tokenizer."""
        from ouroboros_core.decoding.generation import check_kept

        fresh = methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
        assert fresh is not None, "asked for a method that keeps something"
        of_kind(memory, type(fresh))
        check_kept(memory, pair)
        if memory.shape != fresh.shape:
            raise InvalidInput(
                f"the {memory.holds} was made with other settings: n-grams of {memory.shape} "
                f"tokens, but these settings have {fresh.shape}"
            )
        self._learn(task.method, memory)

    @staticmethod
    def _memory_key(method: str, memory: Memory) -> tuple[str, Hashable, str]:
        return method, memory.shape, memory.fingerprint

    def show(
        self,
        trace: Trace | None,
        baseline: Trace | None,
        difference: Divergence | None = None,
        speedup: Speedup | None = None,
    ) -> None:
        """A finished run is shown."""
        self.previewing = False
        self.begun, self.steps, self.texts, self.pieces = None, [], [], {}
        self.trace, self.baseline, self.difference = trace, baseline, difference
        self.speedup = speedup

    def preview(self, trace: Trace, baseline: Trace | None) -> bool:
        """A recorded run is shown, unless the visitor has made or opened one; whether
        it is."""
        if self.ran is not None or (self.shown and not self.previewing):
            return False
        self.show(trace, baseline)
        self.previewing = True
        return True

    def keep(self, trace: Trace) -> None:
        """Remember a run of this visitor, or from a file, to be compared with others; the oldest
        are forgotten."""
        name = views.describe(trace.method, trace.hyperparameters, trace.target)
        self.kept[f"{trace.created[11:19]} · {name}"] = trace
        while len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]

    def sweep(self, sweep: Sweep) -> Swept:
        """What is kept of a sweep; another one takes the place of the last."""
        if self.swept is None or self.swept.sweep is not sweep:
            self.swept = Swept(sweep)
        return self.swept

    @property
    def shown(self) -> tuple[Trace, Trace | None] | None:
        """The run in Watch with its plain one; None as long as the first, recorded one is
        there."""
        if self.trace is not None:
            return self.trace, self.baseline
        if self.begun is None:
            return None
        pieces = dict(sorted(self.pieces.items()))
        return replace(
            self.begun, steps=tuple(self.steps), texts=tuple(self.texts), pieces=pieces
        ), None
