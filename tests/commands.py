"""The command line in this process: what it prints and its exit code, without the seconds in which
a new process imports torch and loads a pair."""

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ouroboros_core.cli import main
from ouroboros_core.loading import pairs
from ouroboros_core.loading.pairs import Pair
from tests import ROOT

Answer = subprocess.CompletedProcess[str]
Ask = Callable[..., Answer]

_load = pairs.load_pair
_loaded: dict[str, Pair] = {}


def load_once(*positional: Any, **named: Any) -> Pair:
    """The pair that these arguments have loaded before, or load now."""
    key = repr((positional, sorted(named.items())))
    if key not in _loaded:
        _loaded[key] = _load(*positional, **named)
    return _loaded[key]


@contextmanager
def asking(capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """Gives the function that runs a command line: its arguments, and `stdin`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "load_pair", load_once)
        patch.chdir(ROOT)

        def ask(*arguments: str, stdin: str = "") -> Answer:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            capsys.readouterr()
            try:
                code: Any = main(arguments)
            except SystemExit as left:
                code = left.code
            said = capsys.readouterr()
            return Answer(list(arguments), code, said.out, said.err)

        yield ask


def words(text: str) -> list[str]:
    """Arguments of a command, in which no value has a space."""
    return text.split()


def missing_targets(names: Iterable[str]) -> list[str]:
    """Names that are no target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return [one for one in names if not re.search(rf"^{one}:", makefile, re.MULTILINE)]


def sources(*folders: str) -> list[str]:
    """Return the files of the working tree that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    names = finished([*command, *folders], check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def finished(command: Sequence[str | Path], check: bool = False, **more: Any) -> Answer:
    """The answer of a process of its own; `more` as `subprocess.run` takes it."""
    options: dict[str, Any] = {"cwd": ROOT, "encoding": "utf-8", "timeout": 300, **more}
    return subprocess.run(command, capture_output=True, check=check, **options)


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """Return the first true value of a condition within five minutes, while a process lives."""
    for _ in range(15_000):
        if value := condition():
            return value
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("the condition did not come true in five minutes")


@contextmanager
def running(command: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, whose output is kept; it ends with the block at the latest, and so does
    what it has started."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, **more, encoding="utf-8"
    )
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        process.kill()
        process.communicate()
