"""Fixtures of tests of jobs."""

from collections.abc import Iterator

import pytest

from ouroboros_core.decoding.generation import Generation
from ouroboros_core.trace.trace import Step
from tests.visualize.jobs import letters, ready
from visualize.server.models import Models
from visualize.server.runner import Runner


@pytest.fixture(scope="module")
def runner() -> Runner:
    return ready()


@pytest.fixture(scope="module")
def letter_models() -> Models:
    """Loaded models of `letters`."""
    return ready(make=letters).models


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
