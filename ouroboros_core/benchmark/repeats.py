"""The speedup over a set of prompts, measured in several repeats.

A repeat of all prompts is a round, see `ouroboros_core.trace.speedup`: its speedup is the ratio of
all tokens per second, and the repeat with the median speedup gives the numbers of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ouroboros_core.benchmark.store import Measurement
from ouroboros_core.trace.speedup import Speedup, TimedRound, Timing

RESAMPLES = 2000


@dataclass(frozen=True)
class TimedRun:
    """A run on one prompt or turn of a question, and plain decoding's in the same repeat."""

    repeat: int
    question: int | str
    timed: TimedRound


@dataclass(frozen=True)
class Repeats:
    """The repeats of one method: the runs of every repeat that has run all questions so far."""

    each: tuple[tuple[TimedRun, ...], ...]

    @classmethod
    def of(cls, runs: Iterable[TimedRun]) -> Repeats:
        """Leave out a repeat under way, which has fewer runs than another one."""
        by_repeat: dict[int, list[TimedRun]] = {}
        for run in runs:
            by_repeat.setdefault(run.repeat, []).append(run)
        most = max(map(len, by_repeat.values()), default=0)
        return cls(tuple(tuple(runs) for runs in by_repeat.values() if len(runs) == most))

    @property
    def speedup(self) -> Speedup:
        return Speedup(tuple(_total(runs).speedup for runs in self.each) or (0.0,))

    @property
    def middle(self) -> tuple[TimedRun, ...]:
        """The runs of the repeat that has the median speedup; none if nothing was run."""
        return self.each[self.speedup.middle] if self.each else ()

    @property
    def timed(self) -> TimedRound:
        """All runs of that repeat together."""
        return _total(self.middle)

    @property
    def ci95(self) -> tuple[float, float]:
        """95% interval of the median speedup, by resampling the questions of its repeat with a
        fixed seed; the speedup lies within it."""
        by_question: dict[int | str, list[TimedRun]] = {}
        for run in self.middle:
            by_question.setdefault(run.question, []).append(run)
        if len(by_question) < 2:
            return self.speedup.median, self.speedup.median
        import numpy as np

        columns = np.array([_numbers(_total(runs)) for runs in by_question.values()])
        count = len(columns)
        picks = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
        tokens, seconds, plain_tokens, plain_seconds = columns[picks].sum(1).T
        low, high = np.percentile((tokens / seconds) / (plain_tokens / plain_seconds), [2.5, 97.5])
        speedup = self.speedup.median
        return min(float(low), speedup), max(float(high), speedup)


def _total(runs: Iterable[TimedRun]) -> TimedRound:
    return TimedRound.total(run.timed for run in runs)


def _numbers(timed: TimedRound) -> tuple[float, ...]:
    method, plain = timed.method, timed.plain
    return method.tokens, method.seconds, plain.tokens, plain.seconds


def whole(run: Measurement) -> Timing:
    return Timing(run.tokens, run.seconds.prefill + run.seconds.decode)


def repeats(
    runs: Iterable[Measurement],
    reference: Iterable[Measurement],
    time: Callable[[Measurement], Timing] = whole,
) -> Repeats:
    """Return the repeats of a method beside a reference, such as plain decoding.

    time  returns what counts of a run
    """
    reference_seconds = {run.place: time(run) for run in reference}
    return Repeats.of(
        TimedRun(run.repeat, run.question, TimedRound(reference_seconds[run.place], time(run)))
        for run in runs
        if run.place in reference_seconds
    )


def speed_and_texts(measured: Repeats, runs: Sequence[Measurement]) -> dict[str, Any]:
    """Return the fields that the rows of a benchmark and of a sweep have in common."""
    compared = bool(runs) and all(run.compared for run in runs)
    differing = [run.difference for run in runs if run.difference is not None]
    ties = sum(difference.tie for difference in differing)
    return {
        "tokens": sum(run.tokens for run in runs),
        "tokens_per_second": measured.timed.method.tokens_per_second,
        "plain_tokens_per_second": measured.timed.plain.tokens_per_second,
        "speedup": measured.speedup.median,
        "ci95": measured.ci95,
        "equal": len(runs) - len(differing) if compared else None,
        "ties": ties if compared else None,
        "differences": len(differing) - ties if compared else None,
        "lossless": all(run.lossless for run in runs),
    }
