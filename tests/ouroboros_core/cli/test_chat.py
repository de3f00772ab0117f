"""The chat console: its commands on their own, then as a process - piped, and in a terminal."""

import io
import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import read_spec
from ouroboros_core.cli import chat, display
from ouroboros_core.cli.console import Quit, Session
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.text import decode_all
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.locations import cache_folder
from ouroboros_core.sampling import Sampling
from tests import ROOT
from tests.commands import finished, words

COMMAND = [sys.executable, "-m", "ouroboros_core", "chat", "--dtype", "float32"]
COMMAND += ["--max-new-tokens", "12"]
WANTED = {*words("method gamma length processor pair target draft compare step debug seed chat")}
WANTED |= {*words("raw clear save help quit")}


@pytest.fixture
def session(embedded_pair: Pair) -> Session:
    other = tiny_pair(embedded_pair)

    def load(target: str | None, _: str | None) -> Pair:
        if target is None:
            return embedded_pair
        if target == "other":
            return other
        raise InvalidInput(f"there is no model folder or GGUF file {target}")

    return Session(embedded_pair, load, (read_spec("ouroboros", Sampling()),))


def tiny_pair(pair: Pair) -> Pair:
    """The target alone: no draft model, no head, no corpus."""
    return replace(pair, draft=None, heads={}, corpus=None)


def asked(session: Session) -> list[str]:
    return [answer.task.method for answer in session.answers("Hello")]


def test_there_is_every_command_and_help_names_it() -> None:
    assert set(Session.commands()) == WANTED
    assert all(command.__doc__ for command in Session.commands().values())


@pytest.mark.embedded
def test_commands_change_what_is_asked_of_the_model(session: Session) -> None:
    assert all(f"/{name} " in session.do("/help") for name in WANTED)
    assert all(name in session.do("/method") for name in methods.available())
    for line, answer in (
        ("/method speculative[gamma=6] sam", "answered by speculative[gamma=6], then sam"),
        ("/gamma 3", "speculative: gamma 3"),
        ("/length 20", "at most 20 new tokens"),
        ("/processor topknucleus 0.7 20 0.9", "temperature 0.7, top_k 20, top_p 0.9"),
        ("/seed 5", "seed 5"),
    ):
        assert session.do(line) == answer
    assert "speculative[gamma=3], then sam" in session.do("/pair")
    first, second, plain = session.answers("Hello")
    assert asked(session) == ["speculative", "sam", "autoregressive"]
    shown = [answer.shown for answer in (first, second, plain)]
    assert shown == [True, True, False], "plain decoding only to compare with"
    assert first.task.hyperparameters.model_dump() == {"gamma": 3, "stop": "fixed"}
    assert first.task.sampling == Sampling(temperature=0.7, top_k=20, top_p=0.9, seed=5)
    assert first.task.max_new_tokens == 20
    session.do("/compare")
    assert asked(session) == ["speculative", "sam"]
    session.do("/target")
    session.do("/draft")
    assert asked(session) == ["speculative", "sam", "draft_only", "autoregressive"]
    assert all(answer.shown for answer in session.answers("Hello"))
    session.do("/method autoregressive sam")
    in_order = ["autoregressive", "sam", "draft_only"]
    assert asked(session) == in_order, "in the order in which they were asked for"
    assert session.do("/processor greedy") == "greedy"
    assert session.answers("Hello")[0].task.sampling == Sampling(seed=5)
    session.history = ["a", "b"]
    assert session.answers("Hello")[0].task.history == ("a", "b")
    session.do("/raw")
    assert session.answers("Hello")[0].task.history == ()
    assert not session.answers("Hello")[0].task.chat
    session.do("/chat")
    session.do("/clear")
    assert session.answers("Hello")[0].task.history == ()
    with pytest.raises(Quit):
        session.do("/quit")


@pytest.mark.embedded
def test_other_models_are_loaded_and_what_they_lack_is_said(session: Session) -> None:
    session.do("/method speculative sam")
    session.history = ["a", "b"]
    said = session.do("/pair other")
    assert "answered by sam" in said
    assert "left out: speculative, which needs a draft model" in said
    assert "the conversation starts over" in said
    assert not session.history
    with pytest.raises(InvalidInput, match="no draft model"):
        session.do("/draft")
    session.do("/method sam")
    assert session.do("/pair embedded").startswith(session.pair.target.name)
    assert session.pair.draft is not None
    session.do("/method eagle3")
    assert "answered by prompt_lookup" in session.do("/pair other")


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/", "there is no command /: /help lists them"),
        ("/gamma 99", "gamma must be auto, or between 1 and 32, got 99"),
        ("/gamma 1 2", r"/gamma takes at most 1 words, got 1 2: /gamma \[N\]: draft tokens per s"),
        ("/length 0", "length must be a whole number of at least 1, got 0"),
        ("/processor nucleus 0.5", r"no processor nucleus 0.5: /processor \[greedy . multinom"),
        ("/processor multinomial 0", "temperature must be above 0 here, got 0"),
        ("/seed -1", "seed must be between 0 and 4294967295, got -1"),
        ("/method telepathy", "method must be one of .*, got telepathy"),
        ("/pair nowhere", "there is no model folder or GGUF file nowhere"),
        ("/save", "name a file, as in /save trace.json"),
        ("/save x.json", "there is nothing to save yet"),
        ("/save 'x", "No closing quotation"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    session: Session, line: str, message: str
) -> None:
    session.do("/method speculative")
    before = session.answers("Hello")
    with pytest.raises(InvalidInput, match=message):
        session.do(line)
    assert session.answers("Hello") == before
    session.do("/method sam lookahead")
    with pytest.raises(InvalidInput, match="no gamma in sam, lookahead"):
        session.do("/gamma 3")


@pytest.mark.embedded
def test_an_answer_that_was_whole_stays_and_one_that_failed_loses_nothing(session: Session) -> None:
    """The model breaks down in the second method: the first one's answer is on the record, and the
    traces can be saved."""
    session.length = 6
    session.do("/method sam prompt_lookup")
    quiet = Console(file=io.StringIO())
    chat._answer(session, "Hello", quiet, quiet)
    assert len(session.history) == 2
    good = session.traces
    for name in ("sam", "prompt_lookup"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(methods.get(name), "propose", broken)
            with pytest.raises(RuntimeError):
                chat._answer(session, "And you?", quiet, quiet)
        assert name != "sam" or (session.traces, len(session.history)) == (good, 2)
    assert len(session.history) == 4
    assert [trace.method for trace in session.traces] == ["sam"]


def broken(*_: Any) -> None:
    raise RuntimeError("out of memory")


@pytest.mark.embedded
def test_the_live_view_shows_the_end_of_a_long_line_and_control_characters_as_pictures(
    embedded_pair: Pair,
) -> None:
    kind = methods.get("speculative")
    fixed = {"gamma": 4}  # a draft in every step, whatever passes cost here
    settings = kind.Hyperparameters.parse(fixed)
    task = Task("Write one long sentence about the sea.", kind.id, settings, max_new_tokens=40)
    generation = Generation(embedded_pair, task)
    drawing = io.StringIO()
    sizes: dict[str, Any] = {"width": 40, "height": 6, "color_system": "truecolor"}
    display.live(generation, Console(file=drawing, force_terminal=True, **sizes))
    drawn = drawing.getvalue()
    frames = [squeezed(frame) for frame in drawn.split("tokens/s")]
    assert len(frames) > 3
    written = squeezed("".join(generation.texts))
    ends = [written[n : n + 12] for n in range(len(written) - 60, len(written) - 12)]
    shown = any(end in frame for end in ends for frame in frames)
    assert shown, "frames towards the end show where the text has got to"
    assert re.search(STRUCK, drawn), "a rejected draft is struck through"
    assert "tokens/s" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    assert display.safe("a\x1b]0;title\x07\tb\nc\x9b") == "a␛]0;title␇\tb\nc\ufffd"


def squeezed(drawn: str) -> str:
    """What is drawn, without rejected drafts, colours and spaces."""
    kept = re.sub(STRUCK + r"[^\x1b]*\x1b\[0m", "", drawn)
    return re.sub(r"\s", "", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", kept))


STRUCK = r"\x1b\[(?:2;)?9m"
"""Dim or not, and struck through."""


@pytest.mark.embedded
def test_piped_it_answers_every_line_and_goes_on_after_a_mistake(
    embedded_pair: Pair, tmp_path: Path
) -> None:
    file = tmp_path / "my trace.json"
    lines = ["/method speculative[gamma=99]", "/", "Name a colour.", "/method sam speculative"]
    lines += ["/debug", "Another one?", f"/save '{file}'", "/quit", "no"]
    result = finished(COMMAND, input="\n".join(lines))
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr

    def plain(prompt: str, history: tuple[str, ...] = ()) -> str:
        kind = methods.get("autoregressive")
        task = Task(prompt, kind.id, kind.Hyperparameters(), max_new_tokens=12, history=history)
        trace = Generation(embedded_pair, task).run()
        ended = trace.tokens[-1] in embedded_pair.stop_tokens
        return decode_all(embedded_pair.tokenizer, trace.tokens[:-1] if ended else trace.tokens)

    first = plain("Name a colour.")
    second = plain("Another one?", ("Name a colour.", first))
    written = f"{first}\n{second}\n{second}\n"
    assert result.stdout == written, "two methods, one text, which knows of the turn before"
    assert "gamma must be auto, or between 1 and 32, got 99" in result.stderr
    assert "there is no command /:" in result.stderr
    assert result.stderr.count("identical to plain decoding, token by token") == 3
    steps = r"^   1 +\d+ proposed, +\d+ emitted"
    assert re.search(steps, result.stderr, re.MULTILINE), "the steps are notes"
    traces = sorted(tmp_path.glob("my trace*.json"))
    ran = [json.loads(path.read_text(encoding="utf-8"))["method"] for path in traces]
    assert ran == ["sam", "speculative", "autoregressive"]


class Terminal:
    """A process in a pseudo-terminal of its own, as a person has it before them."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.process, self.master = pty.fork()
        if not self.process:
            # A shell that put us in the background made us ignore it.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir(ROOT)
            (home / "ouroboros").mkdir()
            for known in filter(Path.is_dir, cache_folder().iterdir()):  # all but a history
                (home / "ouroboros" / known.name).symlink_to(known)
            environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
            environment |= {"XDG_CACHE_HOME": str(home), "PROMPT_TOOLKIT_NO_CPR": "1"}
            environment["OMP_NUM_THREADS"] = "1"  # several wait for one another if it is busy
            os.execve(COMMAND[0], [*COMMAND, *arguments], environment)
        self.seen = ""

    def wait_for(self, pattern: str, seconds: float = 240) -> None:
        """Read until the pattern has come; fails where the process ends before."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < end, f"{pattern} did not come:\n{self.seen[-2000:]}"
            try:
                self.listen(0.2)
            except OSError:
                raise AssertionError(f"it ended before {pattern}:\n{self.seen[-2000:]}") from None

    def listen(self, seconds: float) -> None:
        """Read what comes next within a time, if anything comes."""
        if select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        """Wait for the line editor, then type."""
        self.wait_for(r">\x1b\[0m")
        time.sleep(0.5)  # until the editor reads keys one at a time
        self.seen = ""
        os.write(self.master, text.encode())

    def end(self) -> int:
        """What it exits with."""
        while True:
            try:
                if not os.read(self.master, 65536):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    started = Terminal(tmp_path, "--methods", "speculative[gamma=2]")
    yield started
    os.close(started.master)


@pytest.mark.slow
@pytest.mark.embedded
def test_in_a_terminal_lines_are_edited_and_tokens_have_colours(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.wait_for(r"/help\s+lists\s+the\s+commands")
    terminal.type("Tell me a storx\x7fy.\r")  # a mistake, taken back
    terminal.wait_for(r"identical to plain decoding|a tie")
    assert "Tell me a stor" in terminal.seen.replace("\x1b[0m", "")
    assert re.search(r"\x1b\[(?:1;)?38;[25];", terminal.seen), "colours"
    assert re.search(STRUCK, terminal.seen), "a rejected draft is struck through"
    speed = r"tokens: \d+, steps: \d+, [\d.]+ tokens/s"
    assert re.search(speed, terminal.seen), "the speed, while it runs"
    assert re.search(r"speculative: 12 tokens in", terminal.seen)
    history = (tmp_path / "ouroboros" / "chat-history").read_text(encoding="utf-8")
    assert "Tell me a story." in history, "as it was sent, not as it was typed"
    terminal.type("\x1b[A\r")  # the line before, again
    terminal.wait_for(r"identical to plain decoding|a tie")
    terminal.type("/step\r")
    terminal.wait_for("step by step: on")
    terminal.type("Hello\r")
    terminal.wait_for("Enter goes on")
    terminal.seen = ""
    silent = 8  # listened for so often in vain: a signal between prompt and read waits for the next
    for turn in range(20 * silent):
        if "stopped" not in terminal.seen:
            if turn % silent == 0:
                os.write(terminal.master, b"\x03")  # Ctrl-C ends the run, not the console
            terminal.listen(0.5)
    terminal.wait_for("stopped")
    terminal.type("\x04")  # Ctrl-D
    assert terminal.end() == 0
