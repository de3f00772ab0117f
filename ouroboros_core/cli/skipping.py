"""`train skip`: search for the layers that the target skips when it drafts for itself."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput
from ouroboros_core.settings import Hyperparameters

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.models.skips import Skips
    from ouroboros_core.training.skip import Fastest

PROMPTS = 4
"""Number of prompts on which a choice is measured."""


class SkipSettings(Hyperparameters):
    """Settings of the search."""

    seconds: int = Field(600, ge=1, description="Seconds of the search.")
    max_new_tokens: int = Field(32, ge=2, description="Tokens written for each prompt.")
    seed: int = Field(0, ge=0, description="Seed of the search.")


def add(parser: argparse.ArgumentParser) -> None:
    options.add_pair(parser)
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help=f"JSON lines, the first {PROMPTS} (default: the project's own)",
    )
    options.add_settings(parser, SkipSettings)


def run(arguments: argparse.Namespace) -> None:
    from ouroboros_core.benchmark import prompts
    from ouroboros_core.loading.skips import Search, keep
    from ouroboros_core.training.skip import search

    settings = SkipSettings.parse(options.flag_values(arguments, SkipSettings.settings()))
    count = settings.max_new_tokens
    questions = (
        prompts.spread(prompts.read(arguments.prompts), PROMPTS)
        if arguments.prompts
        else prompts.own_prompts(PROMPTS)
    )
    arguments.draft = arguments.head = arguments.corpus = "none"
    pair = options.load_pair(arguments)
    if pair.self_draft is None:
        raise InvalidInput(
            f"the layers of {pair.target.name} cannot be skipped: choose another target, such as "
            "Llama, Qwen, Mistral, Gemma, Phi-3 or GPT-2"
        )
    chat = bool(pair.tokenizer.chat_template)
    texts = [pair.encode(question.turns[0], chat=chat) for question in questions]
    speed(pair, texts, count, None)  # the first passes of a process are slower
    plain = speed(pair, texts, count, None)
    begun = time.monotonic()
    fastest = search(
        pair.target.layers,
        lambda skips: speed(pair, texts, count, skips),
        lambda: time.monotonic() > begun + settings.seconds,
        settings.seed,
        _show,
    )
    spent = time.monotonic() - begun
    result = Search(fastest.skips, fastest.speed, plain, fastest.tried, spent)
    file = keep(pair.target, result)
    print(
        f"{pair.target.name} {fastest.skips}: {fastest.speed:.1f} tokens/s, plain {plain:.1f}, the "
        f"fastest of {fastest.tried} choices in {spent:.0f} s: {file}"
    )


def speed(pair: Pair, texts: Sequence[Sequence[int]], count: int, skips: Skips | None) -> float:
    """Return the tokens per second, without prefill, of greedy Draft & Verify with its published
    settings, or of plain decoding if `skips` is None."""
    from ouroboros_core import methods
    from ouroboros_core.decoding.loop import decode
    from ouroboros_core.methods.parts.base import Resources
    from ouroboros_core.models.self_draft import SelfDraft
    from ouroboros_core.sampling import Sampler, Sampling

    kind = methods.get("autoregressive" if skips is None else "draft_verify")
    draft = None if skips is None else SelfDraft(pair.target, skips)
    sampler = Sampler(Sampling(), pair.target.vocabulary)
    ends: dict[str, Any] = {"max_new_tokens": count, "stop_tokens": pair.stop_tokens}
    written, seconds = 0, 0.0
    for text in texts:
        resources = Resources(sampler, stop_tokens=pair.stop_tokens, self_draft=draft)
        method = methods.create(kind, kind.Hyperparameters.parse(kind.published), resources)
        for step in decode(pair.target, method, text, sampler=sampler, **ends):
            written += len(step.tokens)
            seconds += step.seconds.decode
    return written / seconds


def _show(fastest: Fastest) -> None:
    """Show the progress on a terminal, in place."""
    if sys.stderr.isatty():
        line = f"\r{fastest.tried} tried, {fastest.speed:.1f} tokens/s {fastest.skips}   "
        print(line, end="", file=sys.stderr, flush=True)
