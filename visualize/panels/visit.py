"""What belongs to one visitor: one session of one browser has one of these, and nobody else sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ouroboros_core.decoding.trace import Trace
from ouroboros_core.words import say
from visualize import views

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Sweep
    from ouroboros_core.decoding.equality import Divergence
    from ouroboros_core.decoding.generation import Generation
    from ouroboros_core.memory.pool import PhrasePool

KEPT = 8
"""Finished runs that are remembered for comparison."""


@dataclass
class Swept:
    """A sweep, and of each cell the latest run with its plain one."""

    sweep: Sweep
    traces: dict[int, tuple[Trace, Trace]] = field(default_factory=dict)


@dataclass
class Visit:
    """pools: phrases by method and n-gram size; kept: runs by what they are called; the rest: what Generate shows."""

    pools: dict[Any, PhrasePool] = field(default_factory=dict)
    kept: dict[str, Trace] = field(default_factory=dict)
    generation: Generation | None = None
    trace: Trace | None = None
    baseline: Trace | None = None
    difference: Divergence | None = None
    swept: Swept | None = None

    def begin(self, generation: Generation) -> None:
        """A run has begun; until it ends, or if it is stopped, what it has written so far is what is shown."""
        self.generation, self.trace, self.baseline, self.difference = generation, None, None, None

    def show(self, trace: Trace, baseline: Trace | None, difference: Divergence | None = None) -> None:
        """A finished run is shown."""
        self.generation, self.trace, self.baseline, self.difference = None, trace, baseline, difference

    def keep(self, trace: Trace) -> None:
        """Remember a run of this visitor, or from a file, to be compared with others; the oldest are forgotten."""
        name = views.describe(trace.method, trace.hyperparameters, trace.target)
        self.kept[say("traces.kept", time=trace.created[11:19], name=name)] = trace
        while len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]

    def sweep(self, sweep: Sweep) -> Swept:
        """What is kept of a sweep; another one takes the place of the last."""
        if self.swept is None or self.swept.sweep is not sweep:
            self.swept = Swept(sweep)
        return self.swept

    @property
    def shown(self) -> tuple[Trace, Trace | None] | None:
        """The run in Generate with its plain one; None as long as the first, recorded one is there."""
        if self.trace is not None:
            return self.trace, self.baseline
        return (self.generation.trace(), None) if self.generation is not None else None
