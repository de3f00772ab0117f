"""Runs in the terminal: tokens as they come, each in the colour of who wrote it, and what is said about a run afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from ouroboros_core import methods
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.equality import divergence
from ouroboros_core.sampling import Sampling
from ouroboros_core.tree import Source
from visualize.palette import LOOKS, key_of

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Generation
    from ouroboros_core.decoding.trace import Step, Trace
    from ouroboros_core.models.pairs import Pair

REFRESH = 12
"""Times a second that the live line is drawn."""


def keys(step: Step) -> list[str]:
    """The look of each token that a step emitted."""
    looks = [key_of(step.tree.provenance[node].source) for node in step.path]
    return looks if step.target_token is None else [*looks, key_of(step.writer, step.kind)]


def rejected(step: Step) -> list[int]:
    """The nodes of the branch that was hoped for where the walk ended: the first child, its first child, and so on."""
    if step.kind != "correction":
        return []
    branch: list[int] = []
    below = step.tree.children(step.path[-1] if step.path else 0)
    while below:
        branch.append(below[0])
        below = step.tree.children(below[0])
    return branch


def stream(generation: Generation, console: Console) -> None:
    """Print tokens as they come; what a whole character needs arrives with its last token."""
    shown = 0
    for step in generation:
        for key, text in zip(keys(step), generation.texts[shown:], strict=True):
            if console.is_terminal:
                console.print(Segments([Segment(text, Style.parse(LOOKS[key].colour))]), end="", soft_wrap=True)
            else:
                console.file.write(text)  # as it is: rich would widen tabs
        shown = len(generation.texts)
    console.file.write("\n")


def _written(text: str) -> str:
    """A rejected piece within a line."""
    return text.replace("\n", "⏎").replace("\t", " ")


def watch(generation: Generation, console: Console, *, pause: bool = False, details: bool = False) -> None:
    """Like `stream`, in a terminal: rejected drafts struck through in place, and a line with the speed so far.

    details: a line for each step instead; pause: wait for Enter after each.
    """
    if details or pause:
        for step in generation:
            console.print(step_line(generation, step))
            if pause and console.is_terminal:
                console.input("[dim]Enter goes on, Ctrl-C ends the run[/] ")
        return
    line, began, shown = Text(), time.perf_counter(), 0
    try:
        with Live(console=console, refresh_per_second=REFRESH, transient=True) as live:
            for step in generation:
                for part in _styled(generation, step, shown):
                    if part is None:
                        live.console.print(line)
                        line = Text()
                    else:
                        line.append_text(part)
                shown = len(generation.texts)
                speed = shown / max(1e-9, time.perf_counter() - began)
                live.update(Group(line, Text(f"{shown} tokens, {speed:.1f} tokens/s, {step.index + 1} steps", style="dim")))
    finally:
        console.print(line)


def _styled(generation: Generation, step: Step, shown: int) -> Iterator[Text | None]:
    """The pieces of a step's text, and None where a line ends; what was rejected stands before the target's own token."""
    pieces = list(zip(keys(step), generation.texts[shown:], strict=True))
    for number, (key, text) in enumerate(pieces, 1):
        if number == len(pieces):
            for node in rejected(step):
                yield Text(_written(generation.piece(step.tree.tokens[node])), style="strike dim")
        for line, part in enumerate(text.split("\n")):
            if line:
                yield None
            yield Text(part, style=LOOKS[key].colour)


def step_line(generation: Generation, step: Step) -> Text:
    """What was proposed and what became of it: accepted in the colours of their sources, rejected struck through."""
    line = Text(f"{step.index + 1:>4}  {len(step.tree) - 1:>2} proposed, {len(step.tokens):>2} emitted  ", style="dim")
    for node in step.path:
        colour = LOOKS[key_of(step.tree.provenance[node].source)].colour
        line.append(_written(generation.piece(step.tree.tokens[node])), style=f"not dim {colour}")
    for node in rejected(step):
        line.append(_written(generation.piece(step.tree.tokens[node])), style="strike")
    if step.target_token is not None:
        colour = LOOKS[key_of(step.writer, step.kind)].colour
        line.append(_written(generation.piece(step.target_token)), style=f"not dim bold {colour}")
    return line


def report(trace: Trace, notes: Console) -> None:
    """Who wrote how much, and how fast it was."""
    counts: dict[str, int] = {}
    for step in trace.steps:
        for key in keys(step):
            counts[key] = counts.get(key, 0) + 1
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
    place = trace.environment
    where = f"{place.processor}, {place.threads} threads, {place.dtype}"
    notes.print(f"{trace.method}: " + ", ".join(parts) + f" [dim]({where})[/]")


def compare(pair: Pair, trace: Trace, baseline: Trace, notes: Console) -> None:
    """The speedup, and whether the text is that of plain decoding."""
    speedup = metrics.speedup(trace, baseline)
    plain = f"autoregressive: {metrics.tokens_per_second(baseline):.1f} tokens/s"
    notes.print(f"{plain}; {trace.method}: speedup {speedup:.2f}x" if speedup else plain)
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
