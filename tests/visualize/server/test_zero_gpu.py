"""A page whose GPU is lent to worker processes: everything works across the border. With a stand-in
for the package `spaces`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT, endless_runs
from tests.browser import chromium, server, wait_until_ready
from tests.visitor import ask, choose, client, generate, open_settings, open_tab, preset, switch

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

FAKE_SPACES = ROOT / "tests" / "fake_spaces"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fake_spaces") / "log"


@pytest.fixture(scope="module")
def url(log: Path) -> Iterator[str]:
    """One thread, because a process that has computed on several cannot be forked."""
    paths = os.pathsep.join([str(FAKE_SPACES), os.environ.get("PYTHONPATH", "")])
    variables = {
        "SPACES_ZERO_GPU": "true",
        "PYTHONPATH": paths,
        "FAKE_SPACES_LOG": str(log),
        "OMP_NUM_THREADS": "1",
    }
    flags = ("--dtype", "float32", "--device", "cpu")
    with server(*flags, program=endless_runs.PROGRAM, environment=variables) as address:
        wait_until_ready(address)
        yield address


def test_a_run_is_carried_out_by_a_worker_and_comes_back_whole(url: str, log: Path) -> None:
    """Oracle: plain decoding, in another worker."""
    answer = client(url).predict(
        "Count to five.", "speculative", max_new_tokens=16, api_name="/generate"
    )
    plain = client(url).predict(
        "Count to five.", "autoregressive", max_new_tokens=16, compare=False, api_name="/generate"
    )
    assert answer["text"] == plain["text"]
    assert answer["identical"] is True
    assert answer["trace"]["environment"]["passes"] == "transformers"
    served = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(served) == 2
    assert all(parent != worker for parent, _, worker, *_ in served)
    assert [float(line[-1]) for line in served] == [pytest.approx(24.6), pytest.approx(18.2)], (
        "15 seconds, and 0.1 for each token of two runs, in three rounds where they are compared"
    )


def test_what_cannot_run_is_said_in_the_workers_own_words(url: str) -> None:
    """The stand-in itself returns no more than the name of an exception's class."""
    with pytest.raises(Exception, match="has room for 8192"):
        client(url).predict("word " * 8190, "speculative", max_new_tokens=16, api_name="/generate")


@pytest.mark.browser
def test_phrases_a_stopped_run_and_a_comparison_cross_the_border(url: str) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(url)
        open_settings(page)
        choose(page, "Ouroboros")
        preset(page, "fixed", "ouroboros")
        ask(page, "The quokka sings: the quokka sings, and again", 32)
        switch(page, "warm")
        traces = []
        for _ in range(2):
            generate(page)
            with page.expect_download() as download:
                page.locator('#save-view [data-kind="json"]').click()
            traces.append(
                json.dumps(json.loads(Path(download.value.path()).read_text(encoding="utf-8")))
            )
        assert ['"history"' in trace for trace in traces] == [False, True], (
            "the pool came back from the first worker"
        )
        ask(page, endless_runs.LONG_ANSWER, 256)
        page.click("#generate")
        page.wait_for_function(
            'document.querySelectorAll(\'#token-view .ouro-run[data-done="false"] '
            ".ouro-token').length > 5",
            timeout=60_000,
        )
        page.click("#stop")
        page.get_by_text("Stopped").first.wait_for(timeout=120_000)
        with page.expect_download() as download:
            page.locator('#save-view [data-kind="json"]').click()
        stopped = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
        assert stopped["ending"] == "cancelled"
        assert 5 < len(stopped["texts"]) < 256
        open_tab(page, "Compare")
        page.locator(".ouro-compare-tokens").fill("8")
        page.click(".ouro-compare-go")
        page.get_by_text("Measured here.").wait_for(timeout=120_000)
        page.close()
