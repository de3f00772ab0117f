"""Runs in the terminal: tokens as they come, each in the colour of its writer, and the report
afterwards."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from ouroboros_core.benchmark.protocol import Measured
from ouroboros_core.decoding.generation import Generation, target_of
from ouroboros_core.messages import counted
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import divergence
from ouroboros_core.trace.summary import Summary, Verdict
from ouroboros_core.trace.trace import Step

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

REFRESH = 12
"""Times a second that the live line is drawn."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def rejected(step: Step) -> list[int]:
    """Return the first rejected branch below the walk: child, its first child, and so on."""
    if step.kind != "correction":
        return []
    branch: list[int] = []
    below = step.tree.children(step.path[-1] if step.path else 0)
    while below:
        branch.append(below[0])
        below = step.tree.children(below[0])
    return branch


def safe(text: str) -> str:
    """Replace control characters by pictures: a model must not control the terminal."""
    return CONTROL.sub(
        lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 32 else "\ufffd", text
    )


def _written(text: str) -> str:
    return safe(text).replace("\n", "⏎").replace("\t", " ")


def pieces(
    generation: Generation, step: Step, texts_before: int, ends: AbstractSet[int] = frozenset()
) -> list[tuple[str, str]]:
    """Return (look, text) of each emitted token; a last token of `ends` is left out."""
    emitted = list(zip(step.looks, generation.texts[texts_before:], strict=True))
    if step.tokens[-1] in ends:
        look, text = emitted.pop()
        emitted.append((look, text.removesuffix(generation.piece(step.tokens[-1]))))
    return emitted


def stream(
    generation: Generation,
    console: Console,
    *,
    ends: AbstractSet[int] = frozenset(),
    watch: Callable[[Step], None] = lambda _: None,
) -> None:
    """Print tokens as they come; a character of several tokens comes with its last one. `watch`
    sees every step.

    In a pipe the text goes out as it is.
    """
    texts_before = 0
    for step in generation:
        for key, text in pieces(generation, step, texts_before, ends):
            if console.is_terminal:
                console.print(
                    Segments([Segment(safe(text), Style.parse(LOOKS[key].colour))]),
                    end="",
                    soft_wrap=True,
                )
            else:
                console.file.write(text)  # as it is: rich would widen tabs
        texts_before = len(generation.texts)
        watch(step)
    console.file.write("\n")
    console.file.flush()


def live(generation: Generation, console: Console, *, ends: AbstractSet[int] = frozenset()) -> None:
    """Like `stream`, on a terminal: rejected drafts struck through, the speed below."""
    line, began, texts_before, drawn = Text(), time.perf_counter(), 0, 0.0
    speed = Text()
    try:
        with Live(console=console, auto_refresh=False, transient=True) as picture:
            for step in generation:
                for text in _styled(generation, step, pieces(generation, step, texts_before, ends)):
                    if text is None:
                        picture.update(speed)
                        console.print(line, soft_wrap=True)
                        line = Text()
                    else:
                        line.append_text(text)
                texts_before = len(generation.texts)
                seconds_now = time.perf_counter()
                speed = Text(
                    f"tokens: {texts_before}, steps: {step.index + 1}, "
                    f"{texts_before / (seconds_now - began):.1f} tokens/s",
                    style="dim",
                )
                if seconds_now - drawn > 1 / REFRESH:
                    picture.update(Group(_tail(line, console), speed), refresh=True)
                    drawn = seconds_now
            picture.update(Text(), refresh=True)
    finally:  # the text stays, also if the run was stopped
        console.print(line, soft_wrap=True)


def _tail(line: Text, console: Console) -> Text:
    rows = line.copy().wrap(console, console.width)
    return Text("\n").join(list(rows)[-max(1, console.height - 2) :])


def _styled(
    generation: Generation, step: Step, emitted: list[tuple[str, str]]
) -> Iterator[Text | None]:
    """Yield a step's pieces, rejected ones before the target's token; None ends a line."""
    for number, (key, text) in enumerate(emitted, 1):
        if number == len(emitted):
            for node in rejected(step):
                yield Text(_written(generation.piece(step.tree.tokens[node])), style="strike dim")
        for line, fragment in enumerate(safe(text).split("\n")):
            if line:
                yield None
            yield Text(fragment, style=LOOKS[key].colour)


def step_line(generation: Generation, step: Step, *, coloured: bool) -> Text:
    """Return the proposal of the last step and its fate: accepted tokens in the colours of their
    sources, rejected ones struck through.

    Without colours, rejected tokens stand in [- -].
    """
    line = Text(
        f"{step.index + 1:>4}  {len(step.tree) - 1:>2} proposed, {len(step.tokens):>2} emitted  ",
        style="dim",
    )
    emitted = generation.texts[-len(step.tokens) :]
    for look, text in zip(step.looks[: len(step.path)], emitted, strict=False):
        line.append(_written(text), style=f"not dim {LOOKS[look].colour}")
    lost = "".join(_written(generation.piece(step.tree.tokens[node])) for node in rejected(step))
    if lost:
        line.append(lost if coloured else f"[-{lost}-]", style="strike")
    if step.target_token is not None:
        colour = LOOKS[step.looks[-1]].colour
        line.append(_written(emitted[-1]), style=f"not dim bold {colour}")
    return line


def report(summary: Summary, notes: Console) -> None:
    """Who wrote how much, and how fast it was."""
    trace = summary.trace
    notes.print(
        "  ".join(
            f"[{LOOKS[look].colour}]{LOOKS[look].glyph} {LOOKS[look].label} {count}[/]"
            for look, count in Counter(trace.looks).items()
        )
    )
    figures = summary.figures
    rate, proposed = summary.acceptance_rate, summary.proposal_acceptance_rate
    if rate is not None and proposed is not None:
        figures.append(f"accepted {rate:.0%} of tested and {proposed:.0%} of proposed tokens")
    chosen = [step for step in trace.steps if step.choice is not None]
    if chosen:
        nodes = sum(len(step.tree) - 1 for step in chosen) / len(chosen)
        plain = sum(len(step.tree) == 1 for step in chosen)
        figures.append(f"auto: {nodes:.1f} nodes a step, {counted(plain, 'plain step')}")
    if summary.skipped:
        figures.append(summary.skipped)
    if trace.generation_config:
        figures.append(
            f"under its generation_config.json: {metrics.in_words(trace.generation_config)}"
        )
    figures += [f"under the grammar ({kind})" for kind in trace.grammar]
    words = f"{escape(summary.name)}: {', '.join(figures)}"
    notes.print(f"{words} [dim]({trace.environment.where})[/]")


def compare(pair: Pair, measured: Measured, notes: Console) -> None:
    """Print the speedup of rounds with plain decoding, and whether the text is the same."""
    baseline, trace = measured.middle().traces
    summary = Summary(trace, baseline, rounds=measured.speedup())
    plain, method = (
        f"{run.tokens_per_second:.1f} tokens/s" for run in (Summary(baseline), summary)
    )
    notes.print(f"autoregressive: {plain}; {trace.method}: {method}, speedup {summary.rounds}")
    if summary.busy:
        notes.print(
            f"measured on a busy machine: {summary.why_busy}; measure again when it is idle"
        )
    if not summary.written_alone and summary.verdict is Verdict.DIFFERENT:
        judged = divergence(target_of(pair, trace), trace, baseline)
        summary = replace(summary, difference=judged)
    wrong = summary.verdict is Verdict.DIFFERENT and not summary.written_alone
    notes.print(summary.verdict_sentence, markup=False, style="bold" if wrong else "")
