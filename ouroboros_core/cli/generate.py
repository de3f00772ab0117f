"""Continue a prompt, each token in the colour of who wrote it.

The text goes to standard output, everything about it to standard error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Source

if TYPE_CHECKING:
    from rich.console import Console

    from ouroboros_core.decoding.generation import Generation
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.memory.pool import PhrasePool
    from ouroboros_core.models.pairs import Pair

WARM_UP_TOKENS = 8


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", required=True, metavar="TEXT|-", help="the prompt; - reads it from standard input")
    options.add_method(parser)
    options.add_sampling(parser)
    options.add_pair(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--chat", action="store_true", dest="chat", default=None, help="put the chat template around the prompt")
    form.add_argument(
        "--raw", action="store_false", dest="chat", help="continue the prompt as it is (default: chat if there is one)"
    )
    parser.add_argument("--max-new-tokens", default="128", metavar="N", help="default: 128")
    parser.add_argument("--compare", action="store_true", help="also run plain decoding, and print the speedup")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the trace there")
    parser.add_argument(
        "--pool", type=Path, metavar="FILE", help="phrases of earlier runs: read if it exists, written afterwards"
    )


def run(arguments: argparse.Namespace) -> None:
    hyperparameters = options.read_method(arguments)
    sampling = options.read_sampling(arguments)
    count = options.whole_number(arguments.max_new_tokens, "max_new_tokens", 0)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt:
        raise InvalidInput("the prompt is empty; write at least one character")
    if arguments.pool and not methods.get(arguments.method).learns_phrases:
        raise InvalidInput(f"{arguments.method} has no phrase pool; leave --pool out, or choose lookahead or ouroboros")

    from rich.console import Console

    from ouroboros_core.decoding.generation import Generation, Task

    console = Console(highlight=False, soft_wrap=True)
    notes = Console(highlight=False, stderr=True)
    pair = options.load_pair(arguments)
    chat = bool(pair.tokenizer.chat_template) if arguments.chat is None else arguments.chat
    task = Task(prompt, arguments.method, hyperparameters, sampling, count, chat)
    pool = _open_pool(arguments.pool, pair, hyperparameters)
    if arguments.compare:
        warm_up = Task(prompt, task.method, hyperparameters, sampling, min(count, WARM_UP_TOKENS), chat)
        Generation(pair, warm_up).run()
    generation = Generation(pair, task, pool)
    try:
        _stream(generation, console)
    finally:
        trace = generation.trace()
        if arguments.json and trace.steps:
            arguments.json.write_text(trace.to_json())
        if arguments.pool and pool is not None and trace.steps:
            pool.save(arguments.pool)
    _report(trace, notes)
    if arguments.compare:
        _compare(pair, trace, Generation(pair, task.plain()).run(), notes)


def _open_pool(path: Path | None, pair: Pair, knobs: Any) -> PhrasePool | None:
    from ouroboros_core.memory.pool import PhrasePool

    if path is None:
        return None
    if path.exists():
        return PhrasePool.load(path, pair.fingerprint)
    return PhrasePool(knobs.ngram_size, knobs.guess_set_size, fingerprint=pair.fingerprint)


def _stream(generation: Generation, console: Console) -> None:
    """Print tokens as they come; what a whole character needs arrives with its last token."""
    from rich.segment import Segment, Segments
    from rich.style import Style

    from visualize.palette import LOOKS, key_of

    shown = 0
    for step in generation:
        sources = [step.tree.provenance[node].source for node in step.path]
        sources += [] if step.target_token is None else [step.writer]
        for source, text in zip(sources, generation.texts[shown:], strict=True):
            if console.is_terminal:
                style = Style.parse(LOOKS[key_of(source, step.kind)].colour)
                console.print(Segments([Segment(text, style)]), end="", soft_wrap=True)
            else:
                console.file.write(text)  # as it is: rich would widen tabs
        shown = len(generation.texts)
    console.file.write("\n")


def _report(trace: Trace, notes: Console) -> None:
    from ouroboros_core.decoding import metrics
    from visualize.palette import LOOKS, key_of

    counts: dict[str, int] = {}
    for step in trace.steps:
        for node in step.path:
            key = key_of(step.tree.provenance[node].source)
            counts[key] = counts.get(key, 0) + 1
        if step.target_token is not None:
            key = key_of(step.writer, step.kind)
            counts[key] = counts.get(key, 0) + 1
    notes.print()
    notes.print("  ".join(f"[{LOOKS[k].colour}]{LOOKS[k].glyph} {LOOKS[k].label} {n}[/]" for k, n in counts.items()))
    rate = metrics.draft_acceptance_rate(trace.steps)
    parts = [
        f"{metrics.new_tokens(trace)} tokens in {metrics.total_seconds(trace):.2f} s",
        f"{metrics.tokens_per_second(trace):.1f} tokens/s",
    ]
    if methods.get(trace.method).writer is Source.TARGET:
        parts += [f"{len(trace.steps)} target passes", f"mean acceptance length {metrics.mean_acceptance_length(trace):.2f}"]
    else:
        parts += [f"{len(trace.steps)} draft passes", "no target pass"]
    parts += [] if rate is None else [f"draft acceptance rate {rate:.0%}"]
    notes.print(f"{trace.method}: " + ", ".join(parts) + f" [dim]({_where(trace)})[/]")


def _where(trace: Trace) -> str:
    environment = trace.environment
    return f"{environment.processor}, {environment.threads} threads, {environment.dtype}"


def _compare(pair: Pair, trace: Trace, baseline: Trace, notes: Console) -> None:
    from ouroboros_core.decoding import metrics
    from ouroboros_core.decoding.equality import divergence

    speedup = metrics.speedup(trace, baseline)
    plain = f"autoregressive: {metrics.tokens_per_second(baseline):.1f} tokens/s"
    notes.print(f"{plain}; speedup {speedup:.2f}x" if speedup else plain)
    if methods.get(trace.method).writer is not Source.TARGET:
        notes.print("the draft model wrote this alone: another text, which nobody checked")
        return
    if Sampling.model_validate(trace.sampling).rejects:
        notes.print("the same distribution as plain sampling, not the same text: that is what rejection sampling keeps")
        return
    found = divergence(pair.target, trace, baseline)
    if found is None:
        notes.print("identical to plain decoding, token by token")
    else:
        notes.print(found.sentence(trace.pieces | baseline.pieces), markup=False, style="" if found.tie else "bold")
