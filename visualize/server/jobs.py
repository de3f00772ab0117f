"""Jobs and their updates: what features give the server to compute.

A job computes while its generator advances, and only then. So the server decides after every
update whether this job continues, or gives way to others. On a lent GPU (`zero_gpu.py`) a prepared
job, its turn and its updates are pickled.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from visualize.server.limits import Limits
from visualize.server.queue import Rank

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

STATUS_INTERVAL = 1 / 2
"""Seconds between two updates that bring nothing but a status."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """Base of all updates of jobs.

    tokens, steps  all that the job has computed so far, for log and budget; 0 if unchanged
    facts          entries of the job's line in the log, which replace earlier ones
    pausable       whether others may compute before the job continues
    rank           the job's rank from here on; None if unchanged
    """

    pausable: ClassVar[bool] = False
    rank: ClassVar[Rank | None] = None
    tokens: int = 0
    steps: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting(Update):
    """The models load, or another job computes. `name` is the job's, `status` a sentence."""

    name: str
    status: str


@dataclass
class Turn:
    """A job's turn to compute.

    name     identifies the job
    seconds  that it may compute; a job may end early to keep to them
    pauses   how often others have computed in between, whose runs no measurement may span
    paused   the seconds of all pauses
    """

    name: str
    seconds: float
    pauses: int = 0
    paused: float = 0.0

    def clock(self) -> float:
        """Return the seconds on a clock that stands still in pauses."""
        return time.monotonic() - self.paused


class Job(ABC):
    """One thing to compute for a visitor: a run, a comparison, ..."""

    kind: ClassVar[str]
    """Its name in the log and in messages."""
    charges: ClassVar[Literal["tokens", "seconds"]] = "tokens"
    """The visitor's budget that pays for it."""
    rank: ClassVar[Rank] = Rank.RUN
    """Whom it gives way to, at its pausable updates."""

    @property
    @abstractmethod
    def cost(self) -> float | None:
        """Return the most that it charges; None if only `prepared` knows it."""

    @property
    def facts(self) -> dict[str, Any]:
        """Return what its line in the log says from the start."""
        return {}

    @property
    def lent_seconds(self) -> float | None:
        """Return how long it needs a lent GPU; None if that is too long for any."""
        return None

    def seconds(self, limits: Limits) -> float:
        """Return the seconds that it may take; a job may end early to keep to them."""
        return 60 * limits.sweep_minutes

    def prepared(self, pair: Pair) -> Self:
        """Return the job with all that depends on the models; raises InvalidInput.

        It is called in the serving process, when the job's turn has come.
        """
        return self

    @abstractmethod
    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        """Compute, and yield updates."""
