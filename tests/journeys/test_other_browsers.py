"""The page in Firefox, and in WebKitGTK, the engine of Safari: it lands, a run that is asked for
with the keyboard writes what the core writes, and nothing is wider than a phone.

Both are Debian's own, driven by what they bring along: Firefox by WebDriver BiDi, WebKitGTK by its
WebDriver. `make browser` installs both where there is apt-get; on other systems they are skipped.
Other tests of the page use Chromium.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from websocket import create_connection

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair
from tests.browser import free_port, server, wait_until_ready

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.slow]

PROGRAM = """
import runpy
from visualize import page

FAULTS = '''<script>
if (!window.faults) {
  window.faults = [];
  const note = (text) => faults.push(String(text)), told = console.error;
  addEventListener("error", (event) => note(event.message));
  addEventListener("unhandledrejection", (event) => note(event.reason));
  console.error = (...words) => { note(words.join(" ")); told.apply(console, words); };
}
</script>'''
head = page.head
page.head = lambda: FAULTS + head()
runpy.run_path("app.py", run_name="__main__")
"""
"""The page notes its own faults: WebKit's driver does not hand over the console."""

PROMPT = "Name the days of the week."
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
WEBKIT = shutil.which("WebKitWebDriver")
MINIBROWSER = next(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"), None)
SCREEN = shutil.which("Xvfb")
ENTER = "\ue007"

RUN = "document.querySelector('#token-view .ouro-run[data-done=\"true\"]:not([data-old])')"
WRITTEN = "[...document.querySelectorAll('#token-view .ouro-token')].map((n) => n.textContent)"
LANDED = "document.querySelector('#token-view .ouro-token') && document.querySelector('#generate')"
SELECT = "document.querySelector('#prompt textarea').select()"
PHONE = """(() => {
  const phone = Object.assign(document.createElement("iframe"), { src: "/" });
  phone.style.cssText = "border: 0; width: 390px; height: 844px";
  document.body.replaceChildren(phone);
})()"""
"""A window of a desk has a least width, so the page is in a frame that is as wide as a phone."""

BEYOND = """(({ document: { documentElement: root }, innerWidth: width }) =>
  [...root.querySelectorAll("#prompt, #generate, .ouro-top, .ouro-run")]
    .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > width)
    .map((node) => node.id || node.className)
    .concat(root.scrollWidth > width ? ["page"] : []))(frames[0])"""
"""What stands beyond the right edge; Gradio's container clips it, so that nothing scrolls."""


class Driver(Protocol):
    def open(self, address: str) -> None: ...

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""

    def press(self, keys: str) -> None:
        """Press keys one after the other, where the focus is."""


def strokes(keys: str) -> list[dict[str, Any]]:
    """Return the actions of WebDriver, which both drivers understand."""
    downs = [{"type": way, "value": key} for key in keys for way in ("keyDown", "keyUp")]
    return [{"type": "key", "id": "keyboard", "actions": downs}]


class Bidi:
    """A window of Firefox."""

    def __init__(self, address: str) -> None:
        self.socket = create_connection(f"{address}/session", timeout=60, suppress_origin=True)
        self.number = 0
        self.send("session.new", capabilities={})
        windows = self.send("browsingContext.getTree")["contexts"]
        self.window = windows[0]["context"]
        size = {"width": 1440, "height": 1000}
        self.send("browsingContext.setViewport", context=self.window, viewport=size)

    def send(self, method: str, **params: Any) -> Any:
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        self.socket.send(json.dumps(asked))
        while (answer := json.loads(self.socket.recv())).get("id") != self.number:
            pass
        assert answer["type"] == "success", answer
        return answer["result"]

    def open(self, address: str) -> None:
        where = {"context": self.window, "url": address, "wait": "complete"}
        self.send("browsingContext.navigate", **where)

    def ask(self, expression: str) -> Any:
        answer = self.send(
            "script.evaluate",
            expression=f"JSON.stringify({expression} ?? null)",
            target={"context": self.window},
            awaitPromise=False,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def press(self, keys: str) -> None:
        self.send("input.performActions", context=self.window, actions=strokes(keys))


class Classic:
    """A window of WebKitGTK's MiniBrowser."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        options = {"binary": str(MINIBROWSER), "args": ["--automation"]}
        asked = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        session = self.post("/session", capabilities=asked)
        self.session = f"/session/{session['sessionId']}"
        self.post(f"{self.session}/window/rect", x=0, y=0, width=1440, height=1000)

    def post(self, path: str, **values: Any) -> Any:
        answer = self.client.post(path, json=values)
        assert answer.is_success, answer.text
        return answer.json()["value"]

    def open(self, address: str) -> None:
        self.post(f"{self.session}/url", url=address)

    def ask(self, expression: str) -> Any:
        script = f"return JSON.stringify({expression} ?? null)"
        return json.loads(self.post(f"{self.session}/execute/sync", script=script, args=[]))

    def press(self, keys: str) -> None:
        self.post(f"{self.session}/actions", actions=strokes(keys))


@contextmanager
def started(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program as long as it is used."""
    with subprocess.Popen(command, encoding="utf-8", **more) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def firefox(folder: Path) -> Iterator[Driver]:
    if not FIREFOX:
        pytest.skip("Firefox is not installed: make browser")
    flags = ["--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port", "0"]
    with started(FIREFOX, *flags, stderr=subprocess.PIPE) as process:
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        address = next(found[0] for line in lines if (found := re.search(r"ws://\S+", line)))
        window = Bidi(address)
        try:
            yield window
        finally:
            window.send("browser.close")
            window.socket.close()


@contextmanager
def webkit(folder: Path) -> Iterator[Driver]:
    if not (WEBKIT and MINIBROWSER and SCREEN):
        pytest.skip("WebKitGTK is not installed: make browser")
    port = free_port()
    with ExitStack() as stack:
        reading, writing = os.pipe()
        flags = ["-displayfd", str(writing), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"]
        stack.enter_context(started(SCREEN, *flags, pass_fds=[writing], stderr=subprocess.DEVNULL))
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as numbers:
            display = numbers.readline().strip()
        environment = {**os.environ, "DISPLAY": f":{display}", "GDK_BACKEND": "x11"}
        environment |= {"HOME": str(folder), "LIBGL_ALWAYS_SOFTWARE": "1"}
        stack.enter_context(started(WEBKIT, f"--port={port}", env=environment))
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        for _ in range(100):
            try:
                client.get("/status")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        window = Classic(client)
        try:
            yield window
        finally:
            client.delete(window.session)


def wait(browser: Driver, holds: str) -> None:
    for _ in range(300):
        if browser.ask(f"Boolean({holds})"):
            return
        time.sleep(0.2)
    raise AssertionError(f"never true: {holds}; {browser.ask('window.faults')}")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server("--dtype", "float32", program=PROGRAM) as found:
        wait_until_ready(found)
        yield found


@pytest.mark.parametrize("start", [firefox, webkit])
def test_the_page_lands_runs_and_fits_a_phone(
    start: Any, address: str, embedded_pair: Pair, tmp_path: Path
) -> None:
    kind = methods.get(methods.DEFAULT)
    task = Task(PROMPT, kind.id, kind.Hyperparameters(), max_new_tokens=128)
    wanted = list(Generation(embedded_pair, task).run().texts)
    with start(tmp_path) as browser:
        browser.open(address)
        wait(browser, LANDED)
        browser.ask(SELECT)
        browser.press(PROMPT + ENTER)
        wait(browser, f"!document.querySelector('#stop').checkVisibility() && {RUN}")
        wait(browser, f"{WRITTEN}.length === {len(wanted)}")
        assert browser.ask(WRITTEN) == wanted
        assert browser.ask("window.faults") == []
        browser.ask(PHONE)
        wait(browser, "frames[0].document.querySelector('#token-view .ouro-token')")
        assert browser.ask("frames[0].innerWidth") == 390
        assert browser.ask(BEYOND) == []
        assert browser.ask("frames[0].faults") == []
