"""Numbers of a run, each a function of its trace with formula and unit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median, quantiles
from typing import Literal

from ouroboros_core.sources import Source
from ouroboros_core.trace.speedup import TimedRound, Timing
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned

BUSY = 1.25
"""The machine was busy if one row takes this many times as long as a proposal."""
BEYOND = 1.05
"""A speedup above this multiple of the mean acceptance length is no saved passes'."""
UNSTEADY = 0.3
"""Spread of equal passes' seconds: idle 0.02 to 0.22, beside a program 0.4 and more."""
FEWEST_EQUAL, FEWEST_PASSES = 4, 8
"""Equal passes that have a median, and passes that have a spread."""

LOOP_ROUNDS, LOOP_TOKENS = 3, 12
"""A tail is a repetition loop if it has LOOP_TOKENS tokens or more, and one cycle of tokens occurs
in it LOOP_ROUNDS times or more."""

Sign = Literal["slowed", "beyond", "unsteady"]


def ratio(a: float, b: float) -> float:
    """a / b; 0 if b is 0."""
    return a / b if b else 0.0


def new_tokens(trace: Trace) -> int:
    return sum(len(step.tokens) for step in trace.steps)


def decode_seconds(trace: Trace) -> float:
    """Seconds from the end of prefill to the last token."""
    return sum(step.seconds.decode for step in trace.steps)


def total_seconds(trace: Trace) -> float:
    return decode_seconds(trace) + sum(step.seconds.prefill for step in trace.steps)


def timing(trace: Trace) -> Timing:
    """Emitted tokens, and seconds of prefill and decoding."""
    return Timing(new_tokens(trace), total_seconds(trace))


def tokens_per_second(trace: Trace) -> float:
    """Emitted tokens / seconds, prefill included; 0 for an empty run."""
    return timing(trace).tokens_per_second


def mean_acceptance_length(trace: Trace) -> float:
    """Emitted tokens / steps, the target's own tokens included; 0 for an empty run."""
    return new_tokens(trace) / len(trace.steps) if trace.steps else 0.0


def proposal_acceptance_rate(steps: Sequence[Step]) -> float | None:
    """Accepted / all proposed tokens, those behind a rejection and on other branches included, as
    many implementations count; None if nothing was proposed."""
    proposed = sum(len(step.tree) - 1 for step in steps)
    return sum(len(step.path) for step in steps) / proposed if proposed else None


def draft_passes_per_draft_token(trace: Trace) -> float | None:
    """Draft passes / drafted tokens, below 1 where one pass writes several; None without."""
    drafted = sum(
        1 for step in trace.steps for p in step.tree.provenance if p.source is Source.DRAFT
    )
    return sum(step.draft_passes for step in trace.steps) / drafted if drafted else None


def token_sources(trace: Trace) -> list[Source]:
    """Who proposed each token: TARGET for its own, DRAFT for a draft that writes alone."""
    sources = []
    for step in trace.steps:
        sources += [step.tree.provenance[node].source for node in step.path]
        sources += [] if step.target_token is None else [step.writer]
    return sources


def accepted_by_learned(trace: Trace, source: Source = Source.SUFFIX) -> Counter[Learned]:
    """Accepted tokens of one source by where their phrase was learned."""
    origins = (step.tree.provenance[node] for step in trace.steps for node in step.path)
    return Counter(p.learned for p in origins if p.source is source and p.learned is not None)


def in_words(settings: Mapping[str, bool | int | float | str]) -> str:
    """Settings of a checkpoint's generation config in a line."""
    return ", ".join(
        name if value is True else f"{name} {value}" for name, value in settings.items()
    )


def acceptance_by_position(trace: Trace) -> list[tuple[int, int]]:
    """(tested, accepted) at each depth of the walk, 1 first."""
    deepest = max((step.tested for step in trace.steps), default=0)
    return [
        (sum(s.tested >= d for s in trace.steps), sum(len(s.path) >= d for s in trace.steps))
        for d in range(1, deepest + 1)
    ]


def seconds_to_token(trace: Trace) -> list[float]:
    """Seconds from the start until each token was there; a step's arrive together."""
    ends = accumulate(step.seconds.prefill + step.seconds.decode for step in trace.steps)
    return [end for end, step in zip(ends, trace.steps, strict=True) for _ in step.tokens]


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first differing token, or where the shorter one ends; None if equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def loop_start(tokens: Sequence[int]) -> int | None:
    """Index from which a text only repeats itself until it ends; None if it does not.

    A loop is a tail of at least LOOP_TOKENS tokens in which one cycle of tokens stands at least
    LOOP_ROUNDS times; the last round may be unfinished. It begins behind the first round, which
    repeats nothing yet, so that at least one token stands before it. A text that ends with a stop
    token has none: `a b c d c d c d c d c d c d` begins to loop at index 4.
    """
    start_of_loop = None
    for cycle in range(1, len(tokens) // LOOP_ROUNDS + 1):
        start = len(tokens) - cycle
        while start and tokens[start - 1] == tokens[start - 1 + cycle]:
            start -= 1
        if len(tokens) - start >= max(LOOP_ROUNDS * cycle, LOOP_TOKENS):
            start_of_loop = min(
                start + cycle, len(tokens) if start_of_loop is None else start_of_loop
            )
    return start_of_loop


def speedup(trace: Trace, baseline: Trace) -> float | None:
    """The speedup of two runs of a round (`trace.speedup`); None if one is empty."""
    return TimedRound(timing(baseline), timing(trace)).speedup or None


def plain_step_seconds(baseline: Trace) -> float:
    """Seconds of a plain step without prefill, the unit of costs; 0 for an empty run."""
    return decode_seconds(baseline) / len(baseline.steps) if baseline.steps else 0.0


def slowed(trace: Trace, baseline: Trace) -> float | None:
    """How many times as long as a pass of this run a pass of plain decoding took, the medians,
    where that is more than BUSY: one row is never dearer than several, so the machine was busy with
    something else and a speedup says nothing.

    None if both passes took about as long, or if the target wrote nothing.
    """
    method_seconds = [step.seconds.verify for step in trace.steps if step.writer is Source.TARGET]
    plain_seconds = [step.seconds.verify for step in baseline.steps]
    if not (method_seconds and plain_seconds and median(method_seconds)):
        return None
    ratio = median(plain_seconds) / median(method_seconds)
    return ratio if ratio > BUSY else None


def pass_spread(trace: Trace) -> float | None:
    """How unequal the seconds of equal passes are: the interquartile range of pass seconds, each
    divided by the median of the passes over as many rows. Of plain decoding, whose passes all have
    one row, it is interquartile range / median.

    None if fewer than FEWEST_PASSES can be compared; widths with fewer than FEWEST_EQUAL passes
    are left out.
    """
    widths: defaultdict[int, list[float]] = defaultdict(list)
    for step in trace.steps:
        widths[step.width].append(step.seconds.verify)
    equal = [group for group in widths.values() if len(group) >= FEWEST_EQUAL and median(group)]
    ratios = [seconds / median(group) for group in equal for seconds in group]
    if len(ratios) < FEWEST_PASSES:
        return None
    low, _, high = quantiles(ratios, n=4)
    return high - low


def why_busy(sign: Sign, number: float) -> str:
    if sign == "slowed":
        return (
            f"passes of plain decoding took {number:.1f}× as long as passes of this run, which "
            "check more"
        )
    if sign == "beyond":
        return (
            f"it is {number:.2f}× the tokens per pass, and a pass that checks more is never the "
            "cheaper one"
        )
    return (
        "passes that do the same work took unequally long, and the middle half of them spread over "
        f"{number:.0%} of the usual time"
    )


def busy(trace: Trace, baseline: Trace) -> tuple[Sign, float] | None:
    """The sign that the machine was busy while a speedup was measured, with its number; None if
    there is no such sign.

    slowed    how many times as long as this run's passes plain passes took, see `slowed`
    beyond    speedup / mean acceptance length, where it is over BEYOND: a pass that checks more is
              never the cheaper one
    unsteady  `pass_spread` of plain decoding or of this run, the larger, where it is over UNSTEADY
    """
    if ratio := slowed(trace, baseline):
        return "slowed", ratio
    ratio_of_speeds, length = speedup(trace, baseline), mean_acceptance_length(trace)
    if (
        ratio_of_speeds is not None
        and ratio_of_speeds > BEYOND * length
        and all(step.writer is Source.TARGET for step in trace.steps)
    ):
        return "beyond", ratio_of_speeds / length
    spread = max(pass_spread(run) or 0.0 for run in (trace, baseline))
    return ("unsteady", spread) if spread > UNSTEADY else None


def expected_tokens(alpha: float, gamma: float) -> float:
    """Tokens a step yields if each of gamma draft tokens is accepted with chance alpha: (1 -
    alpha^(gamma + 1)) / (1 - alpha).

    Leviathan et al., arXiv 2211.17192, equation 1.
    """
    return gamma + 1 if alpha >= 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def ideal_gamma(alpha: float, cost: float, max_gamma: int) -> tuple[int, float]:
    """The draft length of 1 to `most` tokens that promises the most speed, the shortest on a tie,
    and its speedup: expected_tokens(alpha, gamma) / (gamma * cost + 1), where a draft pass costs
    `cost` plain steps.

    Below 1, none pays. Leviathan et al., arXiv 2211.17192, theorem 3.8.
    """
    speedups = [
        (gamma, expected_tokens(alpha, gamma) / (gamma * cost + 1))
        for gamma in range(1, max_gamma + 1)
    ]
    return max(speedups, key=lambda found: found[1])


def break_even(gamma: float, cost: float) -> float | None:
    """The acceptance rate that pays for a step of `cost` plain steps; None if none does."""
    if cost > gamma + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < cost else (low, middle)
    return high
