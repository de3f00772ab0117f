"""The tour of a recorded run: its first steps slowly, a halt at a step that wrote nearly as much as
the longest, and the end of plain decoding, on one clock."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from ouroboros_core.messages import counted, isolated
from ouroboros_core.trace import metrics
from ouroboros_core.trace.reasons import Piece
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Step, Trace

NEARLY = 0.8
"""Share of the tokens of the longest step."""
SLOW_STEPS = 3
"""The first steps, each of which is shown for `SLOW` seconds."""
SLOW, APPROACH, HALT, REST_OF_RUN, REST_OF_PLAIN = 2.0, 4.0, 4.0, 4.0, 5.0
"""Seconds: a slow step, the way to the longest, the halt, the run's rest, plain's rest."""


@dataclass
class Tour:
    """The pace of a run that is played, and words beside it.

    points    (second of playing, second of the run), from (0, 0) on; linear between them
    captions  (second of playing, words from then on)
    """

    points: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    captions: list[tuple[float, str]] = field(default_factory=list)

    @property
    def length(self) -> float:
        return self.points[-1][0]

    def go(self, second: float, within: float) -> None:
        """Play up to a second of the run."""
        self.points.append((self.length + within, second))

    def caption(self, words: str) -> None:
        """Begin a caption here."""
        self.captions.append((self.length, words))

    def played(self, second: float) -> float:
        """Return the second of playing at which a second of the run is reached."""
        for (begun, before), (ended, after) in pairwise(self.points):
            if before < second <= after:
                return begun + (ended - begun) * (second - before) / (after - before)
        return 0.0 if second <= 0 else self.length

    @property
    def view(self) -> dict[str, Any]:
        return asdict(self)


def longest_step(trace: Trace) -> int:
    """Return the index of the first step that wrote nearly as much as the longest: the beginning of
    the text and an early step are visible together."""
    lengths = [len(step.tokens) for step in trace.steps]
    return next(n for n, length in enumerate(lengths) if length >= NEARLY * max(lengths))


def tour(summary: Summary, piece: Piece) -> Tour:
    """Return the tour of a finished run with at least one step."""
    trace, plain = summary.trace, summary.plain
    # as the browser adds them up, in which a step must have ended
    ends = [*accumulate(sum(step.seconds.phases) + 1e-5 for step in trace.steps)]
    longest, made = longest_step(trace), Tour()
    for index in sorted({*range(min(SLOW_STEPS, len(ends))), longest}):
        step = trace.steps[index]
        made.caption(_step_in_words(step, piece) if index < SLOW_STEPS else "")
        made.go(ends[index], SLOW if index < SLOW_STEPS else APPROACH)
        if index == longest:
            made.caption(_halt_in_words(summary, ends[index], index))
            made.go(ends[index], HALT)
    made.caption("")
    made.go(ends[-1], REST_OF_RUN)
    if plain is not None and plain.seconds > ends[-1]:
        made.caption(
            f"All {counted(summary.tokens, 'token')} after {ends[-1]:.1f} s. Plain decoding needs "
            f"{plain.seconds - ends[-1]:.1f} s more."
        )
        made.go(plain.seconds, REST_OF_PLAIN)
    made.caption(_halt_in_words(summary, ends[longest], longest))
    return made


def _step_in_words(step: Step, piece: Piece) -> str:
    """Return what a step guessed, what the target kept of it and what it wrote."""
    proposed, kept = len(step.tree) - 1, len(step.path)
    written = ""
    if step.target_token is not None:
        written = f" The target writes ‘{isolated(piece(step.target_token))}’."
    if not proposed:
        return f"Step {step.index + 1}: nothing is guessed.{written}"
    guessed = f"Step {step.index + 1}: {counted(proposed, 'token')} guessed, {kept} kept."
    return f"{guessed}{written}"


def _halt_in_words(summary: Summary, second: float, longest: int) -> str:
    """Return how many tokens the longest step wrote, and how far the run and plain decoding are."""
    *before, step = summary.trace.steps[: longest + 1]
    words = f"{counted(len(step.tokens), 'token')} from one forward pass"
    words += ", which checks all guesses." if len(step.tree) > 1 else "."
    if summary.baseline is None:
        return words
    tokens = len(step.tokens) + sum(len(earlier.tokens) for earlier in before)
    plain = bisect_left(metrics.seconds_to_token(summary.baseline), second)
    return f"{words} {tokens} by now; plain decoding {plain}."
