"""Fixtures of tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ouroboros_core.decoding.generation import Generation
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step
from tests.folders import small_pair
from visualize.server.models import Models
from visualize.server.runner import Runner


@pytest.fixture(scope="module")
def runner() -> Runner:
    made = Runner(Models(lambda _: small_pair()))
    made.models.ask("").result()
    return made


@pytest.fixture
def never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine is doing."""
    monkeypatch.setattr(metrics, "busy", lambda *_: None)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Generation]:
    """All runs, in the order in which they begin."""
    found: list[Generation] = []
    running = Generation.__iter__

    def noted(self: Generation) -> Iterator[Step]:
        found.append(self)
        return running(self)

    monkeypatch.setattr(Generation, "__iter__", noted)
    return found
