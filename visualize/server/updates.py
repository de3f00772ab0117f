"""What runs, races, sweeps, proofs and games say while they go on.

A worker process pickles what all but sweeps yield (see `lent`), so these are frozen and
hold plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from visualize.run.view import View

if TYPE_CHECKING:
    from ouroboros_core.lookup.memory import Memory
    from ouroboros_core.sweeps.sweep import Run, Sweep
    from ouroboros_core.trace.equality import Divergence
    from ouroboros_core.trace.summary import Speedup
    from ouroboros_core.trace.trace import Step, Trace
    from visualize.draft_game.game import Round
    from visualize.proof.tally import Tally

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
    """A run that is not shown goes on. Nothing is new; the run can be stopped here."""


@dataclass(frozen=True)
class Compared:
    """A round has ended, and another one begins. trace, baseline: those of the median speedup."""

    trace: Trace
    baseline: Trace
    difference: Divergence | None
    speedup: Speedup
    view: View


@dataclass(frozen=True)
class Finished:
    """A run has ended. memory: what it started with, and what it has learned; speedup: None where
    it is not compared."""

    trace: Trace
    baseline: Trace | None
    difference: Divergence | None
    memory: Memory | None
    view: View
    charts: Charts = field(default_factory=dict)
    speedup: Speedup | None = None


RunUpdate = Waiting | Started | Progress | Written | Comparing | Compared | Finished
"""Of a run: any number of Waiting, one Started, any number of Progress, then Written, Comparing
and Compared where it is compared, and one Finished. A run that is stopped or fails has no
Finished."""


@dataclass(frozen=True)
class RaceProgress:
    """A lane of a race goes on, or a round of all lanes has ended."""

    view: View


@dataclass(frozen=True)
class LaneFinished:
    """A lane of a race has ended for the first time. trace: its run."""

    trace: Trace
    view: View


RaceUpdate = Waiting | RaceProgress | LaneFinished | Comparing
"""Of a race: any number of Waiting, then each lane in turn, with a LaneFinished at its end, then
Comparing through the further rounds. Behind every round there is a RaceProgress; the last one ends
the race."""


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


@dataclass(frozen=True)
class Played:
    """A round of "Be the draft" is over."""

    round: Round


PlayUpdate = Waiting | Played
"""Of a round: any number of Waiting, one Played."""


@dataclass(frozen=True)
class Counted:
    """A proof goes on. tally: None as long as the target's probabilities are computed; passes: how
    many plain ones that took."""

    name: str
    tally: Tally | None
    status: str
    passes: int = 0


ProofUpdate = Waiting | Counted
"""Of a proof: any number of Waiting, then Counted; the last one has all counts."""

Update = RunUpdate | RaceUpdate | SweepUpdate | PlayUpdate | ProofUpdate
