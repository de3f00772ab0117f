"""Continue a prompt, each token in the colour of who wrote it.

The text goes to standard output, everything about it to standard error.
"""

from __future__ import annotations

import argparse
import copy
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS, Measured
from ouroboros_core.cli import options
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.locations import read_utf8
from ouroboros_core.lookup.memory import Memory, load_memory
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.loading.pairs import Pair

WARM_UP_TOKENS = 8
METHOD = 1
"""Its lane in a comparison; that of plain decoding is 0."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt",
        type=options.text,
        required=True,
        metavar="TEXT|-",
        help="the prompt; - reads it from standard input",
    )
    options.add_method(parser)
    options.add_sampling(parser)
    options.add_generation_config(parser)
    options.add_grammar(parser)
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
        "--compare",
        action="store_true",
        help="also run plain decoding, in turn with the method, and print the speedup",
    )
    parser.add_argument(
        "--repeats",
        default=str(ROUNDS),
        metavar="N",
        help=f"with --compare, the median of so many rounds counts (default: {ROUNDS})",
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
    free = not (arguments.method or arguments.memory or arguments.prediction)
    arguments.method = arguments.method or methods.DEFAULT
    hyperparameters, sampling = options.read_method(arguments), options.read_sampling(arguments)
    grammar, prompt = options.read_grammar(arguments), _prompt(arguments.prompt)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 0)
    rounds = options.whole_number(arguments.repeats, "repeats", 1)
    if arguments.memory and Need.MEMORY not in methods.get(arguments.method).uses:
        raise InvalidInput(
            f"{arguments.method} keeps nothing from run to run; leave --memory out, or choose "
            f"{methods.able(Need.MEMORY)}"
        )
    if arguments.prediction and Need.PREDICTED_OUTPUT not in methods.get(arguments.method).uses:
        raise InvalidInput(
            f"{arguments.method} has no use for a prediction; leave --prediction out, or choose sam"
        )
    prediction = read_utf8(arguments.prediction) if arguments.prediction else ""
    if arguments.prediction and not prediction:
        raise InvalidInput(
            f"{arguments.prediction} is empty: there is nothing to expect; leave --prediction out"
        )

    options.announce(arguments)  # the imports below also take seconds
    from rich.console import Console

    from ouroboros_core.cli import display

    console = Console(highlight=False, soft_wrap=True)
    notes = options.notes()
    pair = options.load_pair(arguments)
    if free and (needed := options.needed_method(pair)):
        arguments.method, reason = needed
        hyperparameters = options.read_method(arguments)
        notes.print(reason)
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
        generation_config=arguments.generation_config,
        grammar=grammar,
    )
    memory = _open_memory(arguments.memory, pair, task)
    cold = copy.deepcopy(memory)
    if arguments.compare:
        warm_up = replace(task, max_new_tokens=min(count, WARM_UP_TOKENS), prediction="")
        Generation(pair, replace(warm_up, record=False)).run()
    generation = Generation(pair, task, memory)
    try:
        display.stream(generation, console, ends=generation.stop_tokens)
    finally:
        trace = generation.trace()
        if arguments.json and trace.steps:
            arguments.json.write_text(trace.to_json(), encoding="utf-8")
        if arguments.memory and memory is not None and trace.steps:
            memory.save(arguments.memory)
    notes.print()
    display.report(Summary(trace), notes)
    if arguments.compare and trace.steps:
        display.compare(pair, _measure(pair, trace, task, cold, rounds, notes), notes)


def _prompt(text: str) -> str:
    """Return the prompt, for `-` from standard input; raises InvalidInput if it is empty."""
    prompt = sys.stdin.read() if text == "-" else text
    if not prompt:
        raise InvalidInput("the prompt is empty; write at least one character")
    return prompt


def _measure(
    pair: Pair, trace: Trace, task: Task, memory: Memory | None, rounds: int, notes: Console
) -> Measured:
    """The run that was shown and plain decoding, and both again in turn; Ctrl-C ends it after the
    first round. memory: what every run of the method begins with."""
    from ouroboros_core.benchmark import protocol

    def run(number: int, lane: int) -> Trace:
        if lane != METHOD:
            return Generation(pair, task.plain()).run()
        return Generation(pair, task, copy.deepcopy(memory)).run() if number else trace

    measuring = protocol.measure(2, protocol.at_once(run), rounds=rounds, first=METHOD)
    measured = next(measuring)
    try:
        with notes.status("") as status:
            while measured.more:
                status.update(measured.doing)
                measured = next(measuring)
    except KeyboardInterrupt:
        notes.print("stopped measuring")
    return measured


def _open_memory(path: Path | None, pair: Pair, task: Task) -> Memory | None:
    if path is None:
        return None
    if path.exists():
        return load_memory(path, pair.fingerprint)
    return methods.get(task.method).new_memory(task.hyperparameters, pair.fingerprint)
