"""Settings of all tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.commands import Ask

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "project", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
settings.load_profile("project")

# Under `make check`, a `make` that a test starts would report itself as nested: "make[2]: ***".
for name in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS"):
    os.environ.pop(name, None)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    import transformers

transformers.utils.logging.set_verbosity_error()
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
CORES = int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
torch.set_num_threads(max(1, CORES // WORKERS))

SERVING = ("tests.browser", "tests.visitor")


FIXTURES = {"url", "browser", "page", "new_page"}


@cache
def serves(module: ModuleType) -> bool:
    """Return whether a test module imports a function that starts the page or a browser."""
    return any(
        getattr(value, "__module__", None) in SERVING or getattr(value, "__name__", None) in SERVING
        for value in vars(module).values()
    )


LONGEST = (
    *("test_methods", "test_distribution", "test_contributing", "test_native", "test_training"),
    *("test_embedded", "test_multi_candidate", "test_benchmark", "test_simulated_gpu"),
    "test_notebook",
)
"""Files with tests that take minutes, the longest first: a long file that starts late keeps a
single process busy at the end."""


def _turn(item: pytest.Item) -> int:
    return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, and mark tests that need the page or a browser as `served`.

    The page and a browser need all cores. All tests of a module that starts them run separately.
    """
    items.sort(key=_turn)
    for item in items:
        if isinstance(item, pytest.Function) and (
            serves(item.module) or FIXTURES & set(item.fixturenames)
        ):
            item.add_marker("served")


@pytest.fixture(autouse=True, scope="session")
def no_verdict_on_speed() -> Iterator[None]:
    """Keep the choice of engine independent of the machine's load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ouroboros_core.loading.speed.slowness", lambda _: 1.0)
        yield


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of a page that most tests share; two of its prompts run until Stop."""
    from tests import endless_runs
    from tests.browser import server

    with server("--dtype", "float32", program=endless_runs.PROGRAM) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, closed at the end of the module so that other modules can start one."""
    from tests.browser import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def new_page(browser: Any) -> Iterator[Any]:
    """Opens pages in whose scripts nothing may fail, as `tests.visitor.faultless` does."""
    from tests.visitor import faultless

    with ExitStack() as pages:
        yield lambda *given, **more: pages.enter_context(faultless(browser, *given, **more))


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """The page of a new visitor."""
    from tests.visitor import visit

    yield from visit(browser, url)


@pytest.fixture
def never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine is doing."""
    monkeypatch.setattr("ouroboros_core.trace.metrics.busy", lambda *_: None)


@pytest.fixture
def ouroboros(capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """The command line, in this process."""
    from tests.commands import asking

    with asking(capsys) as ask:
        yield ask


@pytest.fixture(scope="session")
def embedded_pair():  # type: ignore[no-untyped-def]
    """The embedded pair in float32, in which greedy decoding is exact."""
    from ouroboros_core import Placement, load_pair

    return load_pair(placement=Placement("cpu", "float32"))
