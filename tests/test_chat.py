"""The chat console: its commands on their own, then as a process - piped, and in a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import read_spec
from ouroboros_core.cli.console import Quit, Session
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.pairs import Pair
from ouroboros_core.sampling import Sampling

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "ouroboros_core", "chat", "--dtype", "float32", "--max-new-tokens", "12"]
WANTED = {
    "method",
    "gamma",
    "length",
    "processor",
    "pair",
    "target",
    "draft",
    "compare",
    "step",
    "debug",
    "seed",
    "chat",
    "raw",
    "clear",
    "save",
    "help",
    "quit",
}


@pytest.fixture
def session(embedded_pair: Pair) -> Session:
    def load(*_: Any) -> Any:
        raise InvalidInput("no other models here")

    return Session(embedded_pair, load, (read_spec("ouroboros", Sampling()),))


def test_there_is_every_command_and_help_names_it() -> None:
    assert set(Session.commands()) == WANTED
    assert all(command.__doc__ for command in Session.commands().values())


@pytest.mark.embedded
def test_commands_change_what_is_asked_of_the_model(session: Session) -> None:
    assert all(f"/{name} " in session.do("/help") for name in WANTED)
    assert all(name in session.do("/method") for name in methods.available())
    assert session.do("/method speculative[gamma=6] sam") == "answered by speculative[gamma=6], then sam"
    assert session.do("/gamma 3") == "speculative: gamma 3"
    assert session.do("/length 20") == "at most 20 new tokens"
    assert session.do("/processor topknucleus 0.7 20 0.9") == "temperature 0.7, top_k 20, top_p 0.9"
    assert session.do("/seed 5") == "seed 5"
    first, second, plain = session.tasks("Hello")
    assert (first.method, second.method, plain.method) == ("speculative", "sam", "autoregressive")
    assert first.hyperparameters.model_dump() == {"gamma": 3}
    assert first.sampling == Sampling(temperature=0.7, top_k=20, top_p=0.9, seed=5)
    assert first.max_new_tokens == 20
    session.do("/compare")
    assert [task.method for task in session.tasks("Hello")] == ["speculative", "sam"]
    session.do("/target")
    session.do("/draft")
    assert [task.method for task in session.tasks("Hello")] == ["speculative", "sam", "draft_only", "autoregressive"]
    assert session.do("/processor greedy") == "greedy"
    assert next(session.tasks("Hello")).sampling == Sampling(seed=5)
    session.history = ["a", "b"]
    assert next(session.tasks("Hello")).history == ("a", "b")
    session.do("/raw")
    assert next(session.tasks("Hello")).history == ()
    assert not next(session.tasks("Hello")).chat
    session.do("/chat")
    session.do("/clear")
    assert next(session.tasks("Hello")).history == ()
    assert session.pair.target.name in session.do("/pair")
    with pytest.raises(Quit):
        session.do("/quit")


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/telepathy", "there is no command /telepathy: /help lists them"),
        ("/gamma 99", "gamma must be between 1 and 32, got 99"),
        ("/gamma 1 2", r"/gamma \[N\]: draft tokens per step"),
        ("/length 0", "length must be a whole number of at least 1, got 0"),
        ("/processor nucleus 0.5", "processor must be .*greedy . multinomial T"),
        ("/processor multinomial 0", "temperature must be above 0 here, got 0"),
        ("/seed -1", "seed must be between 0 and 4294967295, got -1"),
        ("/method telepathy", "method must be one of .*, got telepathy"),
        ("/method speculative[gamma=77]", "gamma must be between 1 and 32, got 77"),
        ("/save", "name a file, as in /save trace.json"),
        ("/save x.json", "there is nothing to save yet"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(session: Session, line: str, message: str) -> None:
    before = list(session.tasks("Hello"))
    with pytest.raises(InvalidInput, match=message):
        session.do(line)
    assert list(session.tasks("Hello")) == before


def test_a_method_without_gamma_says_so(session: Session) -> None:
    session.do("/method sam lookahead")
    with pytest.raises(InvalidInput, match="sam, lookahead has no gamma"):
        session.do("/gamma 3")


@pytest.mark.embedded
def test_piped_it_answers_every_line_and_goes_on_after_a_mistake(embedded_pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    lines = ["/gamma 99", "Name a colour.", "/method sam speculative", "Another one?", f"/save {file}", "/quit", "never read"]
    result = subprocess.run(COMMAND, cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    kind = methods.get("ouroboros")
    first = Generation(embedded_pair, Task("Name a colour.", kind.id, kind.Hyperparameters(), max_new_tokens=12)).run()
    ended = first.tokens[-1] in embedded_pair.stop_tokens
    history = ("Name a colour.", "".join(first.texts[:-1] if ended else first.texts))
    plain = methods.get("autoregressive")
    second = Generation(
        embedded_pair, Task("Another one?", plain.id, plain.Hyperparameters(), max_new_tokens=12, history=history)
    ).run()
    assert result.stdout == f"{first.text}\n{second.text}\n{second.text}\n", (
        "two methods, one text, which knows of the turn before"
    )
    assert "gamma must be between 1 and 32, got 99" in result.stderr
    assert result.stderr.count("identical to plain decoding, token by token") == 3
    assert "tokens/s" in result.stderr
    written = sorted(tmp_path.glob("trace*.json"))
    assert [json.loads(path.read_text())["method"] for path in written] == ["sam", "speculative", "autoregressive"]


class Terminal:
    """A process in a pseudo-terminal, as a person has it before them."""

    def __init__(self, *arguments: str, home: Path) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        environment |= {"XDG_CACHE_HOME": str(home)} if home.exists() else {}
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, pattern: str, seconds: float = 120) -> None:
        """Read until the pattern has come."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < end, f"{pattern} did not come:\n{self.seen[-2000:]}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    break

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self.master, text.encode())


@pytest.mark.embedded
def test_in_a_terminal_lines_are_edited_and_tokens_have_colours() -> None:
    terminal = Terminal("--methods", "speculative", home=Path("nowhere"))
    try:
        terminal.wait_for(r"/help lists the commands")
        terminal.wait_for("> ")
        terminal.type("Tell me a storx\x7fy.\r")  # a mistake, taken back
        terminal.wait_for(r"speculative: 12 tokens in")
        assert "\x1b[38;2;" in terminal.seen or "\x1b[38;5;" in terminal.seen, "colours"
        assert re.search(r"\x1b\[(\d+;)*9m|\x1b\[2;9m|\x1b\[9", terminal.seen), "a rejected draft is struck through"
        assert re.search(r"\d+ tokens, [\d.]+ tokens/s, \d+ steps", terminal.seen), "the speed, while it runs"
        terminal.wait_for(r"identical to plain decoding")
        terminal.type("\x1b[A\r")  # the line before, again
        terminal.wait_for(r"Tell me a story\.")
        terminal.wait_for(r"identical to plain decoding")
        terminal.type("/step\r")
        terminal.wait_for("step by step: on")
        terminal.type("Hello\r")
        terminal.wait_for("Enter goes on")
        terminal.type("\x03")  # Ctrl-C ends the run, not the console
        terminal.wait_for("stopped; /quit leaves")
        terminal.type("\x04")  # Ctrl-D
        terminal.process.wait(30)
        assert terminal.process.returncode == 0
    finally:
        terminal.process.kill()
        os.close(terminal.master)
