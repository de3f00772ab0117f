"""Talk to the model in the terminal, and see who writes each token.

Lines that begin with / are commands (/help). Piped, it answers each line of standard input; notes go to standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput, OuroborosError

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.cli.console import Session
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.decoding.trace import Trace

WARM_UP_TOKENS = 4


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        default=methods.DEFAULT,
        metavar="LIST",
        help=f"which methods answer, in turn, with knobs in brackets: speculative[gamma=4],sam (default: {methods.DEFAULT})",
    )
    options.add_sampling(parser)
    options.add_pair(parser)
    parser.add_argument("--raw", action="store_true", help="continue texts as they are (default: chat, if there is a template)")
    parser.add_argument("--max-new-tokens", default="128", metavar="N", help="default: 128")


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.benchmark.entrants import read_spec, split

    sampling = options.read_sampling(arguments)
    length = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    specs = tuple(read_spec(text, sampling) for text in split(arguments.methods))
    if not specs:
        raise InvalidInput("name a method with --methods, or leave it out")

    from rich.console import Console

    from ouroboros_core.cli.console import Session

    def load(target: str, draft: str | None) -> Any:
        return options.load_pair(argparse.Namespace(**{**vars(arguments), "target": target, "draft": draft, "head": None}))

    notes = Console(highlight=False, stderr=True)
    pair = options.load_pair(arguments)
    chat = bool(pair.tokenizer.chat_template) and not arguments.raw
    session = Session(pair, load, specs, sampling, length, chat)
    session.do_method(*(spec.text for spec in specs))  # says what is lacking before anything is asked
    _warm_up(session)
    notes.print(f"{session.do_pair()}. /help lists the commands.", markup=False)
    read = _reader() if sys.stdin.isatty() else _lines
    _converse(session, read, Console(highlight=False, soft_wrap=True), notes)


def _warm_up(session: Session) -> None:
    """A few tokens, so that the first answer's clock measures no first calls."""
    from ouroboros_core.decoding.generation import Generation, Task

    for spec in session.specs:
        Generation(session.pair, Task("Hi", spec.method, spec.hyperparameters, spec.sampling, WARM_UP_TOKENS, chat=False)).run()


def _lines() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _reader() -> Callable[[], str]:
    """A line editor with history and completed commands."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    from ouroboros_core.cli.console import Session
    from ouroboros_core.locations import cache_folder

    cache_folder().mkdir(parents=True, exist_ok=True)
    commands = WordCompleter([f"/{name}" for name in Session.commands()], sentence=True)
    session: PromptSession[str] = PromptSession(history=FileHistory(str(cache_folder() / "chat-history")), completer=commands)
    return lambda: session.prompt("> ")


def _converse(session: Session, read: Callable[[], str], console: Console, notes: Console) -> None:
    """Read and answer until the end; what goes wrong is said, and nothing is lost."""
    from ouroboros_core.cli.console import Quit

    while True:
        try:
            line = read()
            if line.startswith("/"):
                notes.print(session.do(line), markup=False)
            elif line.strip():
                _answer(session, line, console, notes)
        except (EOFError, Quit):
            return
        except KeyboardInterrupt:
            notes.print("stopped; /quit leaves")
        except (OuroborosError, OSError) as error:
            notes.print(f"error: {error}", markup=False, style="red")


def _answer(session: Session, text: str, console: Console, notes: Console) -> None:
    """Let every method answer; the first one's answer goes on the record of the conversation."""
    from ouroboros_core.benchmark.entrants import BASELINE
    from ouroboros_core.cli import display

    tasks = list(session.tasks(text))
    session.traces = []
    for number, task in enumerate(tasks):
        hidden = task.method == BASELINE and number > 0 and not session.target
        if not hidden and len(tasks) > 1:
            notes.print(f"── {task.method} ──", style="dim")
        trace = _run(session, task, console, hidden=hidden)
        session.traces.append(trace)
        if not hidden:
            display.report(trace, notes)
    if session.compare and len(tasks) > 1:
        for trace in session.traces[:-1]:
            display.compare(session.pair, trace, session.traces[-1], notes)
    if session.chat:
        session.history += [text, _without_end(session, session.traces[0])]


def _run(session: Session, task: Task, console: Console, *, hidden: bool) -> Trace:
    from ouroboros_core.cli import display
    from ouroboros_core.decoding.generation import Generation

    generation = Generation(session.pair, task)
    if hidden:
        return generation.run()
    if session.debug or session.step or console.is_terminal:
        display.watch(generation, console, pause=session.step, details=session.debug or session.step)
    else:
        display.stream(generation, console)
    return generation.trace()


def _without_end(session: Session, trace: Trace) -> str:
    """The answer as the next turn's template wants it: without the token that ended it."""
    ended = bool(trace.tokens) and trace.tokens[-1] in session.pair.stop_tokens
    return "".join(trace.texts[:-1] if ended else trace.texts)
