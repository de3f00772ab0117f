"""Runs in the terminal: tokens as they come, each in the colour of who wrote it, and what is said
about a run afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from ouroboros_core import methods
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import LOOKS, Source, key_of
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import divergence

if TYPE_CHECKING:
    from ouroboros_core.benchmark.protocol import Measured
    from ouroboros_core.decoding.generation import Generation
    from ouroboros_core.loading.pairs import Pair
    from ouroboros_core.trace.trace import Step, Trace

REFRESH = 12
"""Times a second that the live line is drawn."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def keys(step: Step) -> list[str]:
    """The look of each token that a step emitted."""
    looks = [key_of(step.tree.provenance[node].source) for node in step.path]
    return looks if step.target_token is None else [*looks, key_of(step.writer, step.kind)]


def rejected(step: Step) -> list[int]:
    """The nodes of the first branch below the end of the walk: the first child, its first child,
    and so on."""
    if step.kind != "correction":
        return []
    branch: list[int] = []
    below = step.tree.children(step.path[-1] if step.path else 0)
    while below:
        branch.append(below[0])
        below = step.tree.children(below[0])
    return branch


def safe(text: str) -> str:
    """The text with control characters replaced by pictures, so that a model cannot control the
    terminal."""
    return CONTROL.sub(
        lambda found: chr(0x2400 + ord(found[0])) if ord(found[0]) < 32 else "\ufffd", text
    )


def _written(text: str) -> str:
    """A rejected piece within a line."""
    return safe(text).replace("\n", "⏎").replace("\t", " ")


def pieces(
    generation: Generation, step: Step, shown: int, ends: AbstractSet[int] = frozenset()
) -> list[tuple[str, str]]:
    """(look, text) of what a step emitted, `shown` texts having come before; a token of `ends` is
    left out at the end."""
    found = list(zip(keys(step), generation.texts[shown:], strict=True))
    if step.tokens[-1] in ends:
        look, text = found.pop()
        found.append((look, text.removesuffix(generation.piece(step.tokens[-1]))))
    return found


def stream(
    generation: Generation,
    console: Console,
    *,
    ends: AbstractSet[int] = frozenset(),
    watch: Callable[[Step], None] = lambda _: None,
) -> None:
    """Print tokens as they come; what a whole character needs arrives with its last token. `watch`
    sees every step.

    In a pipe the text goes out as it is.
    """
    shown = 0
    for step in generation:
        for key, text in pieces(generation, step, shown, ends):
            if console.is_terminal:
                console.print(
                    Segments([Segment(safe(text), Style.parse(LOOKS[key].colour))]),
                    end="",
                    soft_wrap=True,
                )
            else:
                console.file.write(text)  # as it is: rich would widen tabs
        shown = len(generation.texts)
        watch(step)
    console.file.write("\n")
    console.file.flush()


def live(generation: Generation, console: Console, *, ends: AbstractSet[int] = frozenset()) -> None:
    """Like `stream`, for a terminal: rejected drafts struck through in place, and below it a line
    with the speed so far."""
    line, began, shown, drawn = Text(), time.perf_counter(), 0, 0.0
    speed = Text()
    try:
        with Live(console=console, auto_refresh=False, transient=True) as picture:
            for step in generation:
                for part in _styled(generation, step, pieces(generation, step, shown, ends)):
                    if part is None:
                        picture.update(speed)
                        console.print(line, soft_wrap=True)
                        line = Text()
                    else:
                        line.append_text(part)
                shown = len(generation.texts)
                now = time.perf_counter()
                speed = Text(
                    f"tokens: {shown}, steps: {step.index + 1}, {shown / (now - began):.1f} "
                    "tokens/s",
                    style="dim",
                )
                if now - drawn > 1 / REFRESH:
                    picture.update(Group(_tail(line, console), speed), refresh=True)
                    drawn = now
            picture.update(Text(), refresh=True)
    finally:  # what was written stays, also where the run was stopped
        console.print(line, soft_wrap=True)


def _tail(line: Text, console: Console) -> Text:
    """The end of a line, as much as fits the terminal."""
    rows = line.copy().wrap(console, console.width)
    return Text("\n").join(list(rows)[-max(1, console.height - 2) :])


def _styled(
    generation: Generation, step: Step, found: list[tuple[str, str]]
) -> Iterator[Text | None]:
    """The pieces of a step's text, and None at a line end; what was rejected stands before the
    target's own token."""
    for number, (key, text) in enumerate(found, 1):
        if number == len(found):
            for node in rejected(step):
                yield Text(_written(generation.piece(step.tree.tokens[node])), style="strike dim")
        for line, part in enumerate(safe(text).split("\n")):
            if line:
                yield None
            yield Text(part, style=LOOKS[key].colour)


def step_line(generation: Generation, step: Step, *, coloured: bool) -> Text:
    """What was proposed in the last step and what became of it: accepted in the colours of their
    sources, rejected struck through.

    Without colours, what was rejected stands in [- -].
    """
    line = Text(
        f"{step.index + 1:>4}  {len(step.tree) - 1:>2} proposed, {len(step.tokens):>2} emitted  ",
        style="dim",
    )
    emitted = generation.texts[-len(step.tokens) :]
    for node, text in zip(step.path, emitted, strict=False):
        colour = LOOKS[key_of(step.tree.provenance[node].source)].colour
        line.append(_written(text), style=f"not dim {colour}")
    lost = "".join(_written(generation.piece(step.tree.tokens[node])) for node in rejected(step))
    if lost:
        line.append(lost if coloured else f"[-{lost}-]", style="strike")
    if step.target_token is not None:
        colour = LOOKS[key_of(step.writer, step.kind)].colour
        line.append(_written(emitted[-1]), style=f"not dim bold {colour}")
    return line


def report(trace: Trace, notes: Console) -> None:
    """Who wrote how much, and how fast it was."""
    counts: dict[str, int] = {}
    for step in trace.steps:
        for key in keys(step):
            counts[key] = counts.get(key, 0) + 1
    notes.print(
        "  ".join(
            f"[{LOOKS[k].colour}]{LOOKS[k].glyph} {LOOKS[k].label} {n}[/]"
            for k, n in counts.items()
        )
    )
    rate = metrics.draft_acceptance_rate(trace.steps)
    parts = [
        f"{metrics.new_tokens(trace)} tokens in {metrics.total_seconds(trace):.2f} s",
        f"{metrics.tokens_per_second(trace):.1f} tokens/s",
    ]
    if methods.get(trace.method).writer is Source.TARGET:
        parts += [
            f"{len(trace.steps)} target passes",
            f"{metrics.mean_acceptance_length(trace):.2f} tokens per pass",
        ]
    else:
        parts += [f"{len(trace.steps)} draft passes", "no target pass"]
    proposed = metrics.proposal_acceptance_rate(trace.steps)
    if rate is not None and proposed is not None:
        parts.append(f"accepted {rate:.0%} of tested and {proposed:.0%} of proposed tokens")
    chosen = [step for step in trace.steps if step.choice is not None]
    if chosen:
        nodes = sum(len(step.tree) - 1 for step in chosen) / len(chosen)
        plain = sum(len(step.tree) == 1 for step in chosen)
        parts.append(f"auto: {nodes:.1f} nodes a step, {plain} plain steps")
    if without := metrics.skipped(trace):
        parts.append(without)
    if trace.generation_config:
        parts.append(
            f"under its generation_config.json: {metrics.in_words(trace.generation_config)}"
        )
    environment = trace.environment
    name = escape(methods.label(trace.method, trace.hyperparameters))
    name += "" if metrics.lossless(trace) else " (not lossless)"
    notes.print(f"{name}: " + ", ".join(parts) + f" [dim]({environment.where})[/]")


def compare(pair: Pair, measured: Measured, notes: Console) -> None:
    """The speedup with its spread, and whether the text is that of plain decoding. measured: rounds
    of plain decoding and one method."""
    from ouroboros_core.decoding.generation import target_of

    baseline, trace = measured.middle().traces
    plain, mine = (f"{metrics.tokens_per_second(run):.1f} tokens/s" for run in (baseline, trace))
    told = f"autoregressive: {plain}; {trace.method}: {mine}, speedup {measured.speedup()}"
    notes.print(told)
    busy = metrics.busy(trace, baseline)
    if busy is not None:
        why = metrics.why_busy(*busy)
        notes.print(f"measured on a busy machine: {why}; measure again when it is idle")
    if methods.get(trace.method).writer is not Source.TARGET:
        notes.print("the draft model wrote this alone: another text, which nobody checked")
        return
    rule = Sampling.model_validate(trace.sampling).rule
    if not rule.lossless:
        notes.print(
            f"{rule.name} is not lossless: another text, which the target alone need not write"
        )
        return
    if not rule.repeats_plain_text:
        notes.print(
            "the same distribution as plain sampling, not the same text: that is what "
            f"{rule.name} keeps"
        )
        return
    found = divergence(target_of(pair, trace), trace, baseline)
    if found is None:
        notes.print("identical to plain decoding, token by token")
    else:
        notes.print(
            found.sentence(trace.pieces | baseline.pieces),
            markup=False,
            style="" if found.tie else "bold",
        )
