"""Jobs and their updates: what features give the server to compute.

A job computes while its generator advances, and only then. So the server decides after every
update whether this job continues. On a lent GPU (`zero_gpu.py`) a prepared job and its updates are
pickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from visualize.server.limits import Limits

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

STATUS_INTERVAL = 1 / 2
"""Seconds between two updates that bring nothing but a status."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """Base of all updates of jobs.

    tokens, steps  all that the job has computed so far, for log and budget; 0 if unchanged
    facts          entries of the job's line in the log, which replace earlier ones
    """

    tokens: int = 0
    steps: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting(Update):
    """The models load, or another job computes. `name` is the job's, `status` a sentence."""

    name: str
    status: str


class Job(ABC):
    """One thing to compute for a visitor: a run, a comparison, ..."""

    kind: ClassVar[str]
    """Its name in the log and in messages."""
    charges: ClassVar[Literal["tokens", "seconds"]] = "tokens"
    """The visitor's budget that pays for it."""

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
    def updates(self, pair: Pair, name: str, seconds: float) -> Generator[Update, None, None]:
        """Compute, and yield updates. `name` identifies this job, `seconds` is its time."""
