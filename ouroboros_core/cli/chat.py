"""Talk to the model in the terminal, and see who writes each token.

Lines that begin with / are commands (/help). Piped, it answers each line of standard input; notes
go to standard error.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import BASELINE, read_spec, split
from ouroboros_core.benchmark.protocol import Measured
from ouroboros_core.cli import options
from ouroboros_core.cli.console import Answer, Quit, Session
from ouroboros_core.decoding.generation import Generation
from ouroboros_core.decoding.text import split_text
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.locations import cache_folder
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace

if TYPE_CHECKING:
    from rich.console import Console

WARM_UP_TOKENS = 4


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        metavar="LIST",
        help=(
            "which methods answer, in turn, with settings in brackets: speculative[gamma=4],sam "
            f"({options.default_method()})"
        ),
    )
    options.add_sampling(parser)
    options.add_generation_config(parser)
    options.add_pair(parser)
    parser.add_argument(
        "--raw",
        action="store_true",
        help="continue texts as they are (default: chat, if there is a template)",
    )
    parser.add_argument("--max-new-tokens", default="128", metavar="N", help="default: 128")


def run(arguments: argparse.Namespace) -> None:
    sampling = options.read_sampling(arguments)
    length = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 1)
    named = methods.DEFAULT if arguments.methods is None else arguments.methods
    specs = tuple(read_spec(text, sampling) for text in split(named))
    if not specs:
        raise InvalidInput("name a method with --methods, or leave it out")

    from rich.console import Console

    def load(target: str | None, draft: str | None) -> Any:
        others = {"target": target, "draft": draft, "head": None, "corpus": None}
        return options.load_pair(argparse.Namespace(**{**vars(arguments), **others}))

    notes = options.notes()
    pair = options.load_pair(arguments)
    if arguments.methods is None and (needed := options.needed_method(pair)):
        specs = (read_spec(needed[0], sampling),)
        notes.print(needed[1])
    session = Session(pair, load, specs, sampling, length, not arguments.raw)
    session.generation_config = arguments.generation_config
    session.choose(specs)  # says what is lacking before anything is asked
    notes.print(f"{session.do_pair()}. /help lists the commands.", markup=False)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(
            errors="replace"
        )  # a byte that is no text must not end the conversation
    read = _reader() if sys.stdin.isatty() else _lines
    _converse(session, read, Console(highlight=False), notes)


def _lines() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _reader() -> Callable[[], str]:
    """Return a line editor with history and completion, drawn on standard error."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.output import create_output

    cache_folder().mkdir(parents=True, exist_ok=True)
    words = [f"/{name}" for name in Session.commands()] + [
        f"/method {name}" for name in methods.available()
    ]
    commands = WordCompleter(words, sentence=True)
    history = FileHistory(str(cache_folder() / "chat-history"))
    session: PromptSession[str] = PromptSession(
        history=history, completer=commands, output=create_output(sys.stderr)
    )
    return lambda: session.prompt("> ")


def _converse(session: Session, read: Callable[[], str], console: Console, notes: Console) -> None:
    while True:
        try:
            line = read()
        except EOFError:
            return
        except KeyboardInterrupt:
            notes.print("/quit leaves, Ctrl-D too")
            continue
        try:
            if line.startswith("/"):
                notes.print(session.do(line), markup=False)
            elif line.strip():
                _answer(session, line, console, notes)
        except Quit:
            return
        except KeyboardInterrupt:
            notes.print("stopped")
        except BrokenPipeError:
            raise
        except OuroborosError as error:
            grown = not line.startswith("/") and session.chat and session.history
            hint = " (/clear forgets the conversation, /length asks for less)" if grown else ""
            notes.print(f"error: {error}{hint}", markup=False, style="red")
        except OSError as error:
            notes.print(f"error: {error.strerror}: {error.filename}", markup=False, style="red")
        except Exception as error:
            notes.print(f"error: {type(error).__name__}: {error}", markup=False, style="red")


def _answer(session: Session, text: str, console: Console, notes: Console) -> None:
    """Let every method answer; the first answer joins the conversation when complete."""
    from ouroboros_core.cli import display

    answers = session.answers(text)
    traces: list[Trace] = []
    try:
        for answer in answers:
            if answer.task.method not in session.warm:
                Generation(session.pair, replace(answer.task, max_new_tokens=WARM_UP_TOKENS)).run()
                session.warm.add(answer.task.method)
            if len(answers) > 1:
                why = "" if answer.shown else ", to compare with"
                notes.print(f"── {answer.task.method}{why} ──", style="dim")
            generation = Generation(session.pair, answer.task)
            try:
                _run(session, generation, answer, console, notes)
            finally:
                if generation.steps:
                    traces.append(generation.trace())
            if len(traces) == 1 and session.chat:
                session.history += [text, _spoken(session, traces[0])]
            if answer.shown:
                display.report(Summary(traces[-1]), notes)
    finally:
        session.traces = traces or session.traces
    baseline = next((trace for trace in traces if trace.method == BASELINE), None)
    if session.compare and baseline is not None:
        for trace in traces:
            if trace is not baseline:
                display.compare(session.pair, Measured.once(baseline, trace), notes)


def _run(
    session: Session, generation: Generation, answer: Answer, console: Console, notes: Console
) -> None:
    """Show a run on standard output; if that is no terminal, its steps go to the notes."""
    from ouroboros_core.cli import display

    details, ends = session.debug or session.step, generation.stop_tokens
    if not answer.shown:
        generation.run()
    elif not console.is_terminal:
        coloured = notes.is_terminal
        lines = (
            (lambda step: notes.print(display.step_line(generation, step, coloured=coloured)))
            if details
            else lambda _: None
        )
        display.stream(generation, console, ends=ends, watch=lines)
    elif details:
        for step in generation:
            console.print(display.step_line(generation, step, coloured=True))
            if session.step and sys.stdin.isatty():
                _pause(console)
    else:
        display.live(generation, console, ends=ends)


def _pause(console: Console) -> None:
    try:
        console.input("[dim]Enter goes on, Ctrl-C ends the run[/] ")
    except EOFError:
        raise KeyboardInterrupt from None


def _spoken(session: Session, trace: Trace) -> str:
    """The answer without its stop token, as the next turn's template needs it."""
    ended = trace.ending == "stop token"
    tokens = trace.tokens[:-1] if ended else trace.tokens
    return "".join(split_text(session.pair.tokenizer, tokens))
