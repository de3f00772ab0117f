"""A real server and a real browser for the tests of the page."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import ROOT

SWITCHED_OFF = ("gpu", "quic", "background-networking", "component-update", "sync")
FLAGS = ["--headless", "--no-sandbox", "--no-first-run"]
FLAGS += [f"--disable-{name}" for name in SWITCHED_OFF]


def browser_path() -> str:
    """Debian's chromium or a Google Chrome; without either, playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), "")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(
    *flags: str,
    guard: bool = True,
    one_round: bool = True,
    program: str = "",
    environment: dict[str, str] | None = None,
    log_file: Path | None = None,
    start: Sequence[str] = (),
    folder: Path = ROOT,
) -> Iterator[str]:
    """The page in a process of its own; with `guard`, any connection that leaves this machine is an
    error there.

    one_round    a run or race is measured once; with `guard` only. What is imported for that is
                 imported before the program has read its flags
    program      Python code to run in place of app.py, with the same flags
    environment  variables beside those of this process
    log_file     keeps what the process writes; without it, any traceback there is an error
    start        a command in place of this interpreter and app.py, run in `folder`
    """
    port = free_port()
    with (
        log_file.open("w+", encoding="utf-8")
        if log_file
        else tempfile.TemporaryFile("w+", encoding="utf-8") as log,
        tempfile.TemporaryDirectory() as scratch,
    ):
        main = "app.py"
        if program:
            main = f"{scratch}/program.py"
            Path(main).write_text(program, encoding="utf-8")
        command = [sys.executable, *(["-m", "tests.loopback"] if guard else [])]
        command = [*(start or [*command, main]), "--port", str(port), *flags]
        variables = {**os.environ, "HF_HUB_OFFLINE": "", **(environment or {})}
        variables["ONE_ROUND"] = "1" if one_round else ""
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=variables
        )
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(900):
                try:
                    urllib.request.urlopen(url, timeout=2).close()
                    break
                except OSError:
                    if process.poll() is not None:
                        break
                    time.sleep(0.2)
            else:
                process.kill()
                process.wait()
            if process.poll() is not None:
                log.seek(0)
                raise RuntimeError("the page did not start:\n" + log.read())
            yield url
            log.seek(0)
            written = log.read()
            assert "refused: a connection to" not in written, written
            assert log_file or "Traceback" not in written, written
        finally:
            process.terminate()
            process.wait(60)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def file_server(folder: Path, handler: type[Quiet] = Quiet) -> Iterator[str]:
    """The files of a folder, as any web server gives them."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{files.server_port}/"
        files.shutdown()


def health(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def wait_until_ready(url: str) -> None:
    for _ in range(1500):
        with suppress(OSError):  # a container that begins
            word = health(url)[1]["status"]
            assert word != "failed", "the models could not be loaded"
            if word == "ready":
                return
        time.sleep(0.2)
    raise AssertionError("the models did not arrive")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(args=FLAGS, executable_path=browser_path() or None)
        try:
            yield browser
        finally:
            browser.close()
