"""A comparison of methods on one prompt, each measured several times, alternating; a race on the
page measures them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import TYPE_CHECKING

from ouroboros_core.benchmark import entrants, protocol
from ouroboros_core.benchmark.protocol import ROUNDS, Measured
from ouroboros_core.benchmark.runner import WARM_UP_TOKENS
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput
from ouroboros_core.progress import progress_bar
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import divergence
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Trace

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

METHODS = ("speculative", "prompt_lookup", "union")


@dataclass(frozen=True)
class Lane:
    """One method of a comparison.

    name       as it was given, `speculative[gamma=2]`
    traces     one of each counted round
    plain      the traces of plain decoding in the same rounds
    identical  whether every text is that of plain decoding, ties of rounding apart; None if it need
               not be
    difference where a text is another one, in words; empty if none is
    busy       why the numbers are in doubt, in words; empty if nothing speaks against them
    """

    name: str
    traces: tuple[Trace, ...]
    plain: tuple[Trace, ...]
    identical: bool | None
    difference: str = ""
    busy: str = ""

    @cached_property
    def rounds(self) -> Speedup:
        """The speedups of all rounds."""
        pairs = zip(self.traces, self.plain, strict=True)
        return Speedup(tuple(metrics.speedup(*pair) or 0.0 for pair in pairs))

    @cached_property
    def _middle(self) -> int:
        if self.plain == self.traces:
            return self.all_seconds.index(median_low(self.all_seconds))
        return self.rounds.middle

    @property
    def speedup(self) -> float:
        """The median of all rounds."""
        return self.rounds.median

    @property
    def trace(self) -> Trace:
        """The run of the median round, by speedup; of plain decoding, by seconds."""
        return self.traces[self._middle]

    @property
    def seconds(self) -> float:
        """Seconds of that run, prefill included."""
        return metrics.total_seconds(self.trace)

    @property
    def plain_seconds(self) -> float:
        """Seconds of plain decoding in that round, prefill included."""
        return metrics.total_seconds(self.plain[self._middle])

    @property
    def all_seconds(self) -> tuple[float, ...]:
        return tuple(metrics.total_seconds(trace) for trace in self.traces)


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; a notebook shows it as a race. The first lane is plain decoding."""

    prompt: str
    target: str
    environment: Environment
    lanes: tuple[Lane, ...]

    def __getitem__(self, name: str) -> Lane:
        """The lane of that name."""
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(f"{name}: the lanes are {', '.join(lane.name for lane in self.lanes)}")

    @property
    def baseline(self) -> Lane:
        return self.lanes[0]

    @property
    def fastest(self) -> Lane:
        return max(self.lanes, key=lambda lane: lane.speedup)


def compare(
    prompt: str,
    methods: Sequence[str] | str = METHODS,
    *,
    pair: Pair | None = None,
    max_new_tokens: int = 64,
    rounds: int = ROUNDS,
    sampling: Sampling | None = None,
) -> Comparison:
    """Measure methods and plain decoding on one prompt.

    Every round runs each of them once, and every round begins with another one, so that a machine
    that becomes slower slows all of them; a round on a busy machine is measured again, see
    `ouroboros_core.benchmark.protocol`. Before the first round each generates a few tokens that
    are not measured.

    methods   as on the command line: `speculative`, `lookahead[published]`, `union[gamma=2]`;
              plain decoding is always measured, and its lane is the first
    pair      of models; the embedded one where it is left out
    rounds    how often each is measured; an odd number has a median that is one of them
    sampling  greedy where it is left out

    Raises InvalidInput for a method or a setting that there is not, one that the pair cannot run,
    and one that is warm: it would copy its own answer of the round before.
    """
    if not prompt:
        raise InvalidInput("the prompt is empty; write at least one character")
    for name, value in (("rounds", rounds), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    specs = _specs(methods, sampling or Sampling())
    if pair is None:
        from ouroboros_core.loading.pairs import load_pair

        pair = load_pair()
    lanes = [entrants.MethodEntrant(pair, spec) for spec in specs]
    for lane in lanes:
        lane.run(entrants.Request(prompt, min(WARM_UP_TOKENS, max_new_tokens)))
    measured = _follow(lanes, entrants.Request(prompt, max_new_tokens), rounds)
    result_lanes = tuple(_lane(pair, lane, n, measured) for n, lane in enumerate(lanes))
    return Comparison(prompt, pair.target.name, pair.environment, result_lanes)


def _specs(methods: Sequence[str] | str, sampling: Sampling) -> list[entrants.Spec]:
    """The methods, plain decoding first; raises InvalidInput."""
    named = methods if isinstance(methods, str) else ",".join(methods)
    specs = entrants.parse(named, sampling)
    specs.sort(key=lambda spec: spec.text != entrants.BASELINE)
    warm = next((spec.text for spec in specs if spec.warm), None)
    if warm:
        raise InvalidInput(
            f"{warm} would copy its own answer from the round before: leave warm=true out, or "
            "measure it on many prompts with bench"
        )
    return specs


def _follow(
    lanes: Sequence[entrants.MethodEntrant], request: entrants.Request, rounds: int
) -> Measured:
    """Run all rounds; the bar moves with each run, and stands while a round is repeated."""
    total, begun = rounds * len(lanes), 0
    with progress_bar("comparing", total) as tell:

        def run(_: int, lane: int) -> Trace:
            nonlocal begun
            tell(min(begun, total - 1), lanes[lane].label)
            begun += 1
            return lanes[lane].trace(request)

        measured = protocol.last(protocol.measure(len(lanes), protocol.at_once(run), rounds=rounds))
        tell(total, "done")
    return measured


def _lane(pair: Pair, entrant: entrants.MethodEntrant, number: int, measured: Measured) -> Lane:
    """The numbers of a lane, and how its texts compare with the texts of plain decoding."""
    compared = entrant.repeats_plain_text
    wrong = _wrong(pair, measured, number) if compared else ""
    middle = measured.middle(number)
    sign = metrics.busy(middle.traces[number], middle.plain)
    busy, equal = metrics.why_busy(*sign) if sign else "", not wrong if compared else None
    times = measured.traces(number), measured.traces(0)
    return Lane(entrant.label, *times, equal, wrong, busy)


def _wrong(pair: Pair, measured: Measured, lane: int) -> str:
    """Say how the first text differs from plain decoding's, ties of rounding apart."""
    for round_ in measured.rounds:
        trace, plain = round_.traces[lane], round_.plain
        difference = divergence(pair.target, trace, plain)
        if difference is not None and not difference.tie:
            return difference.sentence(trace.pieces | plain.pieces)
    return ""
