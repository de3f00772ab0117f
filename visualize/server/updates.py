"""What runs, races and sweeps say while they go on.

A worker process pickles what a run and a race yield (see `lent`), so these are frozen and hold
plain data. A sweep is never lent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ouroboros_core.benchmark.sweep import Run, Sweep
    from ouroboros_core.decoding.equality import Divergence
    from ouroboros_core.decoding.trace import Step, Trace
    from ouroboros_core.lookup.memory import Memory

View = dict[str, Any]
"""What a script of the page draws."""
Charts = dict[str, Any]
"""Figures by the name of their chart: those that changed."""


@dataclass(frozen=True)
class Waiting:
    """Models load or another run computes; status says which. name: of the run, race or sweep."""

    name: str
    status: str


@dataclass(frozen=True)
class Started:
    """A run computes now. trace: without steps; memory: what it starts with."""

    name: str
    trace: Trace
    memory: Memory | None
    view: View
    charts: Charts = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """New steps of a run, the texts of their tokens, and the pieces of all tokens in them."""

    steps: tuple[Step, ...]
    texts: tuple[str, ...]
    pieces: dict[int, str]
    view: View
    charts: Charts = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """The text of a run is complete; plain decoding comes next, for comparison."""

    trace: Trace
    view: View
    charts: Charts = field(default_factory=dict)


@dataclass(frozen=True)
class Comparing:
    """Plain decoding goes on. Nothing is new; the run can be stopped here."""


@dataclass(frozen=True)
class Finished:
    """A run has ended. memory: what it started with, and what it has learned."""

    trace: Trace
    baseline: Trace | None
    difference: Divergence | None
    memory: Memory | None
    view: View
    charts: Charts = field(default_factory=dict)


RunUpdate = Waiting | Started | Progress | Written | Comparing | Finished
"""Of a run: any number of Waiting, one Started, any number of Progress, then Written and Comparing
where it is compared, and one Finished. A run that is stopped or fails has no Finished."""


@dataclass(frozen=True)
class RaceProgress:
    """A lane of a race goes on."""

    view: View


@dataclass(frozen=True)
class LaneFinished:
    """A lane of a race has ended. trace: its run."""

    trace: Trace
    view: View


RaceUpdate = Waiting | RaceProgress | LaneFinished
"""Of a race: any number of Waiting, then each lane in turn; the last LaneFinished ends it."""


@dataclass(frozen=True)
class SweepStarted:
    """A sweep computes now; it holds what is measured and what is left."""

    sweep: Sweep


@dataclass(frozen=True)
class SweepProgress:
    """status: what the sweep measures now; done: a run that has just ended."""

    status: str
    done: Run | None = None


SweepUpdate = Waiting | SweepStarted | SweepProgress
"""Of a sweep: any number of Waiting, one SweepStarted, then SweepProgress."""

Update = RunUpdate | RaceUpdate | SweepUpdate
