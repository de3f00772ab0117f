"""Continue a prompt, each token in the colour of who wrote it.

The text goes to standard output, everything about it to standard error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.methods.base import Need

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Task
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.lookup.memory import Memory

WARM_UP_TOKENS = 8


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt",
        required=True,
        metavar="TEXT|-",
        help="the prompt; - reads it from standard input",
    )
    options.add_method(parser)
    options.add_sampling(parser)
    options.add_pair(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--chat",
        action="store_true",
        dest="chat",
        default=None,
        help="put the chat template around the prompt",
    )
    form.add_argument(
        "--raw",
        action="store_false",
        dest="chat",
        help="continue the prompt as it is (default: chat if there is one)",
    )
    parser.add_argument("--max-new-tokens", default="128", metavar="N", help="default: 128")
    parser.add_argument(
        "--prediction",
        type=Path,
        metavar="FILE",
        help="the text that is expected, such as yesterday's version [sam, union]",
    )
    parser.add_argument(
        "--compare", action="store_true", help="also run plain decoding, and print the speedup"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the trace there")
    parser.add_argument(
        "--record",
        action="store_true",
        help="keep in the trace what both models thought at each position [not timed]",
    )
    parser.add_argument(
        "--memory",
        "--pool",
        type=Path,
        metavar="FILE",
        help="what the method keeps of earlier runs, for a warm start: read if it exists, written "
        f"afterwards [{methods.able(Need.MEMORY)}]",
    )


def run(arguments: argparse.Namespace) -> None:
    hyperparameters = options.read_method(arguments)
    sampling = options.read_sampling(arguments)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 0)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt:
        raise InvalidInput("the prompt is empty; write at least one character")
    if arguments.memory and Need.MEMORY not in methods.get(arguments.method).uses:
        raise InvalidInput(
            f"{arguments.method} keeps nothing from run to run; leave --memory out, or choose "
            f"{methods.able(Need.MEMORY)}"
        )
    if arguments.prediction and Need.EXPECTED_TEXT not in methods.get(arguments.method).uses:
        raise InvalidInput(
            f"{arguments.method} has no use for a prediction; leave --prediction out, or choose sam"
        )
    prediction = options.read_utf8(arguments.prediction) if arguments.prediction else ""
    if arguments.prediction and not prediction:
        raise InvalidInput(
            f"{arguments.prediction} is empty: there is nothing to expect; leave --prediction out"
        )

    from rich.console import Console

    from ouroboros_core.cli import display
    from ouroboros_core.decoding.generation import Generation, Task

    console = Console(highlight=False, soft_wrap=True)
    notes = options.notes()
    pair = options.load_pair(arguments)
    chat = bool(pair.tokenizer.chat_template) if arguments.chat is None else arguments.chat
    task = Task(
        prompt,
        arguments.method,
        hyperparameters,
        sampling,
        count,
        chat,
        prediction=prediction,
        record=arguments.record,
    )
    memory = _open_memory(arguments.memory, pair, task)
    if arguments.compare:
        warm_up = Task(
            prompt, task.method, hyperparameters, sampling, min(count, WARM_UP_TOKENS), chat
        )
        Generation(pair, warm_up).run()
    generation = Generation(pair, task, memory)
    try:
        display.stream(generation, console, ends=pair.stop_tokens)
    finally:
        trace = generation.trace()
        if arguments.json and trace.steps:
            arguments.json.write_text(trace.to_json())
        if arguments.memory and memory is not None and trace.steps:
            memory.save(arguments.memory)
    notes.print()
    display.report(trace, notes)
    if arguments.compare:
        display.compare(pair, trace, Generation(pair, task.plain()).run(), notes)


def _open_memory(path: Path | None, pair: Pair, task: Task) -> Memory | None:
    """What the file holds, or where there is none a new one to be written there."""
    from ouroboros_core.lookup.memories import load_memory

    if path is None:
        return None
    if path.exists():
        return load_memory(path, pair.fingerprint)
    return methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
