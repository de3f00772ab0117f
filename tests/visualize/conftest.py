"""Fixtures of tests of jobs, and of the static site."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ouroboros_core.decoding.generation import Generation
from ouroboros_core.trace.trace import Step
from tests.visualize.jobs import letters, ready
from visualize.deploy import static_site
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the static site."""
    folder = tmp_path_factory.mktemp("static") / "gallery"
    static_site.write_gallery(folder)
    return folder


@pytest.fixture(scope="module")
def site_url(site: Path) -> str:
    return (site / "index.html").as_uri()
