"""Numbers of a run, each a function of its trace with formula and unit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median, quantiles
from typing import TYPE_CHECKING, Literal

from ouroboros_core.methods.parts.base import NO_DRAFT, NO_WINDOW
from ouroboros_core.sources import Source
from ouroboros_core.trace.speedup import TimedRound, Timing
from ouroboros_core.tree import Learned

if TYPE_CHECKING:
    from ouroboros_core.trace.trace import Step, Trace

BUSY = 1.25
"""If passes over one row take this many times as long as passes over proposals, the machine was
busy."""
BEYOND = 1.05
"""A speedup above this multiple of the mean acceptance length is more than saved passes can
explain."""
UNSTEADY = 0.3
"""Spread of the seconds of equal passes; on an idle machine it is 0.02 to 0.22, beside another
program 0.4 and more."""
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
    """Tokens emitted."""
    return sum(len(step.tokens) for step in trace.steps)


def decode_seconds(trace: Trace) -> float:
    """Seconds from the end of prefill to the last token."""
    return sum(step.seconds.decode for step in trace.steps)


def total_seconds(trace: Trace) -> float:
    """Seconds of prefill and decoding."""
    return decode_seconds(trace) + sum(step.seconds.prefill for step in trace.steps)


def timing(trace: Trace) -> Timing:
    """Emitted tokens, and seconds of prefill and decoding."""
    return Timing(new_tokens(trace), total_seconds(trace))


def tokens_per_second(trace: Trace) -> float:
    """Emitted tokens / seconds, prefill included; 0 for an empty run."""
    return timing(trace).tokens_per_second


def mean_acceptance_length(trace: Trace) -> float:
    """Tokens a step emits, the target's own included: emitted tokens / steps; 0 for an empty
    run."""
    return new_tokens(trace) / len(trace.steps) if trace.steps else 0.0


def draft_acceptance_rate(steps: Sequence[Step]) -> float | None:
    """Accepted / tested proposals along the walk: the alpha of the theory (arXiv 2211.17192,
    section 3.1), which does not count what stands behind a rejection; None if nothing was
    tested."""
    tested = sum(step.tested for step in steps)
    return sum(len(step.path) for step in steps) / tested if tested else None


def proposal_acceptance_rate(steps: Sequence[Step]) -> float | None:
    """Accepted / all proposed tokens, those behind a rejection and on other branches included, as
    many implementations count; None if nothing was proposed."""
    proposed = sum(len(step.tree) - 1 for step in steps)
    return sum(len(step.path) for step in steps) / proposed if proposed else None


def draft_passes_per_draft_token(trace: Trace) -> float | None:
    """Draft model passes / tokens it proposed; below 1 where phrases let one pass write several.
    None without a draft."""
    drafted = sum(
        1 for step in trace.steps for p in step.tree.provenance if p.source is Source.DRAFT
    )
    return sum(step.draft_passes for step in trace.steps) / drafted if drafted else None


def token_sources(trace: Trace) -> list[Source]:
    """Who proposed each emitted token: TARGET for the target's own, DRAFT for a draft model that
    writes alone."""
    sources = []
    for step in trace.steps:
        sources += [step.tree.provenance[node].source for node in step.path]
        sources += [] if step.target_token is None else [step.writer]
    return sources


def accepted_by_source(trace: Trace) -> Counter[Source]:
    """Emitted tokens by who proposed them."""
    return Counter(token_sources(trace))


def proposed_by_source(trace: Trace) -> Counter[Source]:
    """Proposed nodes by who proposed them."""
    return Counter(p.source for step in trace.steps for p in step.tree.provenance[1:])


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
    """Seconds from the start, prefill included, until each emitted token was there; tokens of one
    step arrive together."""
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
    """The speedup of two runs of one round, as `ouroboros_core.trace.speedup` defines it; None if
    one of them is empty."""
    return TimedRound(timing(baseline), timing(trace)).speedup or None


def plain_step_seconds(baseline: Trace) -> float:
    """Seconds of a step of plain decoding, prefill apart: the unit in which other steps are
    weighed; 0 for an empty run."""
    return decode_seconds(baseline) / len(baseline.steps) if baseline.steps else 0.0


def slowed(trace: Trace, baseline: Trace) -> float | None:
    """How many times as long as a pass of this run a pass of plain decoding took, the medians,
    where that is more than BUSY: one row is never dearer than several, so the machine was busy with
    something else and a speedup says nothing.

    None if both passes took about as long, or if the target wrote nothing.
    """
    method_seconds = [step.seconds.verify for step in trace.steps if step.writer is Source.TARGET]
    plain_seconds = [step.seconds.verify for step in baseline.steps]
    ratio = (
        median(plain_seconds) / median(method_seconds)
        if method_seconds and plain_seconds and median(method_seconds)
        else 0.0
    )
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
    """Return the sign of `busy` in words."""
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


def skipped(trace: Trace) -> str:
    """Return the parts that 'auto' left out of a whole run, in words; empty if none."""
    chosen = [step.choice for step in trace.steps if step.choice is not None]
    nothing = not any(choice.offered for choice in chosen)
    omissions = [NO_WINDOW] if chosen and all(choice.window == 0 for choice in chosen) else []
    drafts_asked = {choice.asked for choice in chosen} - {None}  # at the end no draft is of use
    omissions += [NO_DRAFT] if nothing and drafts_asked == {False} else []
    words = "; ".join(omissions)
    return f"{words}, and so there was nothing to propose" if omissions and nothing else words


def draft_cost(trace: Trace, baseline: Trace) -> float | None:
    """c: seconds of a draft pass / seconds of a plain step, both measured; None without draft
    passes."""
    passes = sum(step.draft_passes for step in trace.steps)
    plain = plain_step_seconds(baseline)
    return (
        sum(step.seconds.draft for step in trace.steps) / passes / plain
        if passes and plain
        else None
    )


def step_cost(trace: Trace, baseline: Trace) -> float | None:
    """Seconds of a step / seconds of a plain step, prefill apart. A step pays if it yields more
    tokens than that."""
    plain = plain_step_seconds(baseline)
    return decode_seconds(trace) / len(trace.steps) / plain if trace.steps and plain else None


def proposal_depth(trace: Trace) -> float:
    """gamma: proposed tokens along the deepest branch, the mean over all steps, also over steps
    that proposed nothing."""
    return (
        sum(max(step.tree.depths) for step in trace.steps) / len(trace.steps)
        if trace.steps
        else 0.0
    )


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
    """The acceptance rate at which a step that costs `cost` plain steps yields as many tokens; None
    if gamma + 1 are too few."""
    if cost > gamma + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < cost else (low, middle)
    return high
