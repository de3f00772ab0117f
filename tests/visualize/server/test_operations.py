"""Running the page as a service: health, a bounded queue, an orderly end. Real processes, a real
HTTP client."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import ROOT
from tests.browser import free_port, health, server, wait_until_ready
from tests.folders import chatting_pair
from tests.visitor import client

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

PROGRAM = """
import runpy, sys, threading
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
def load(_):
    {body}
options.load_pair = load
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ("threading.Event().wait()", 200, "loading"),
        ("raise InvalidInput('no such model')", 503, "failed"),
    ],
)
def test_health_tells_loading_from_failed(body: str, status: int, word: str) -> None:
    with server(program=PROGRAM.format(body=body)) as url:
        for _ in range(300):
            if health(url)[1]["status"] == word:
                break
            time.sleep(0.2)
        assert health(url) == (status, {"status": word})


def test_a_full_queue_is_said_and_those_in_it_are_served() -> None:
    with server("--dtype", "float32", "--max-queue", "1") as url:
        wait_until_ready(url)
        said: list[str] = []
        done: list[int] = []

        def ask() -> None:
            try:
                answer = client(url).predict(
                    "Count to ten.", max_new_tokens=48, compare=False, api_name="/generate"
                )
                done.append(len(answer["trace"]["steps"]))
            except Exception as error:
                said.append(str(error))

        visitors = [threading.Thread(target=ask) for _ in range(4)]
        for visitor in visitors:
            visitor.start()
            time.sleep(0.3)
        for visitor in visitors:
            visitor.join(120)
        assert len(done) + len(said) == 4
        assert done and said and all("queue is full" in word.lower() for word in said), said


def test_the_end_of_the_process_is_orderly(tmp_path: Path) -> None:
    """The port is named by Gradio's own variable, and so is the path below which it is served."""
    port = free_port()
    command = [sys.executable, "app.py", *chatting_pair(tmp_path)]
    variables = {"GRADIO_SERVER_PORT": str(port), "PORT": "", "GRADIO_ROOT_PATH": "/demo"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | variables,
        encoding="utf-8",
    )
    try:
        for _ in range(200):
            try:
                if health(f"http://127.0.0.1:{port}")[1]["status"] == "ready":
                    break
            except OSError:
                pass
            time.sleep(0.2)
        else:
            pytest.fail("the models were never ready")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page:
            assert f'"root":"http://127.0.0.1:{port}/demo"' in page.read().decode()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0, out
        assert "Traceback" not in out
    finally:
        process.kill()


def test_a_queue_without_room_is_refused() -> None:
    command = [sys.executable, "app.py", "--max-queue", "0"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, encoding="utf-8"
    )
    assert result.returncode == 2
    assert "max_queue must be a whole number of at least 1, got 0" in result.stderr


@pytest.mark.parametrize("offline", [True, False])
def test_offline_nobody_is_asked_for_anything(tmp_path: Path, offline: bool) -> None:
    """The guard refuses every connection to elsewhere and says so in the log; without the flag
    there is one."""
    log = tmp_path / "log"
    flags = ["--target", "nobody/no-such-model", *(["--offline"] if offline else [])]
    asked = "refused: a connection to"
    with (
        pytest.raises(AssertionError, match=asked) if not offline else nullcontext(),
        server(*flags, one_round=False, log_file=log) as url,
    ):
        for _ in range(300):
            if asked in log.read_text(encoding="utf-8") or health(url) == (
                503,
                {"status": "failed"},
            ):
                break
            time.sleep(0.2)
        if offline:
            assert health(url) == (503, {"status": "failed"})
    assert (asked in log.read_text(encoding="utf-8")) is not offline
    assert (
        "nobody/no-such-model could not be loaded" in log.read_text(encoding="utf-8")
    ) is offline
