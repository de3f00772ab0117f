"""Measurement of the seconds of passes on this machine; `loading.costs` stores the result."""

from __future__ import annotations

import operator
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ouroboros_core.adaptive.cost_model import CONTEXT, Costs, PassCosts
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import ROOT, Provenance, TokenTree, chain

Timer = Callable[[], float]
"""A function that runs an operation and returns its seconds."""

Kind = tuple[Callable[[Any, int, int], Timer], Any, tuple[int, ...]]
"""A function from model, rows and context tokens to a timer; the model; ascending row counts."""

TARGET_ROWS, DRAFT_ROWS, HEAD_ROWS = (1, 2, 4, 8, 16, 32), (1, 4, 16, 32), (4, 8)

SECONDS = 6.0
"""Longest duration of a measurement after its first two rounds."""

ROUNDS, SHORT = 12, 100
"""Most rounds, and tokens of the context for tables of passes."""


def in_turn(timers: Sequence[Timer], rounds: int, seconds: float) -> list[list[float]]:
    """Return the measurements of each timer, alternating between the timers for up to `rounds`
    rounds and `seconds` seconds. The first round does not count, the next two always run."""
    measurements: list[list[float]] = [[] for _ in timers]
    begun = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 2 and time.perf_counter() - begun > seconds:
            break
        for measure, values in zip(timers, measurements, strict=True):
            value = measure()
            values.extend([value] if turn else [])
    return measurements


def tree_of(rows: int, root: int) -> TokenTree:
    return chain(root, [root] * (rows - 1), Provenance(Source.DRAFT))


def siblings_of(rows: int, root: int, vocabulary: int) -> TokenTree:
    """Return `rows` siblings below a root; tokens repeat if the vocabulary is smaller."""
    tokens = (root, *(row % vocabulary for row in range(rows)))
    return TokenTree(tokens, (-1, *[0] * rows), (ROOT, *[Provenance(Source.DRAFT)] * rows))


def pass_of(model: LanguageModel, rows: int, length: int) -> Timer:
    """Return a timer of a pass over a chain of `rows` rows after a context of `length` tokens."""
    context = _text(length, model.vocabulary)
    tree = tree_of(rows, context[-1])

    def timed() -> float:
        begun = time.perf_counter()
        model.evaluate(context, tree).argmax()
        return time.perf_counter() - begun

    return timed


def pass_seconds(models: Sequence[tuple[LanguageModel, int]], repeats: int = 24) -> list[float]:
    """Return the median seconds of each (model, rows), in turn, after SHORT tokens."""
    timers = [pass_of(model, rows, SHORT) for model, rows in models]
    return [statistics.median(seconds) for seconds in in_turn(timers, repeats, float("inf"))]


def level_of(head: Drafter, rows: int, length: int) -> Timer:
    """Time a head's pass over `rows` siblings; one row is the pass over the last token. A block
    drafter has only the pass that writes its block."""
    context, block = _text(length, head.vocabulary), getattr(head, "block", 1)
    root, rows = tree_of(block, context[-1]), rows if block == 1 else 1
    tree = siblings_of(rows, context[-1], head.vocabulary)

    def timed() -> float:
        begun = time.perf_counter()
        evaluation = head.evaluate(context, root)
        evaluation.scored([0], 4)
        if rows == 1:
            return time.perf_counter() - begun
        begun = time.perf_counter()
        head.extend(evaluation, tree).scored(range(1, 1 + rows), 4)
        return time.perf_counter() - begun

    return timed


def measure(
    target: LanguageModel,
    draft: LanguageModel | None,
    heads: Mapping[str, Drafter] | None = None,
    seconds: float = SECONDS,
    counts: int | None = None,
) -> Costs:
    """Time the passes of a pair in rounds of up to `seconds` seconds, but at least three rounds. A
    cost is the median share of the plain pass of its round, times the median plain pass.

    counts: use only the first `counts` row counts of each model. More rows never count as cheaper
    than fewer. A drafter's passes are timed after its first pass of a step.
    """
    kinds: dict[str, Kind] = {"target": (pass_of, target, TARGET_ROWS[:counts])}
    kinds |= {"draft": (pass_of, draft, DRAFT_ROWS[:counts])} if draft else {}
    kinds |= {
        kind: (level_of, drafter, (1,) if hasattr(drafter, "block") else HEAD_ROWS[:counts])
        for kind, drafter in (heads or {}).items()
    }
    # A model may have too few positions for CONTEXT.
    longest = min(model.max_length for model in (target, draft) if model) - TARGET_ROWS[-1]
    length = min(CONTEXT, longest)
    plain = pass_of(target, 1, length)
    timers: dict[tuple[str, int], Timer] = {}
    for kind, (timed, model, several) in kinds.items():
        for rows in several:
            timers[kind, rows] = timer = timed(model, rows, length)
            if kind != "target":
                # The first pass of a head comes before each of its levels, see `level_of`.
                first = timed(model, 1, length) if timed is pass_of else plain
                timers[kind, rows] = _behind(first, timer)
    # A machine gets faster and slower meanwhile: each time is compared with the plain pass of its
    # round. The minimum of a count and all larger ones keeps costs ascending.
    measurements = in_turn([*timers.values()], ROUNDS, seconds)
    alone = statistics.median(measurements[0])
    shares = [
        statistics.median(map(operator.truediv, values, measurements[0])) for values in measurements
    ]
    typical = dict(zip(timers, (alone * share for share in shares), strict=True))
    costs = {}
    for kind, (_, model, several) in kinds.items():
        ascending = [*accumulate((typical[kind, rows] for rows in reversed(several)), min)][::-1]
        costs[kind] = PassCosts(several, tuple(ascending))
        model.forget()
        model.passes = model.rows = 0
    return Costs(costs.pop("target"), costs.pop("draft", None), costs)


def _behind(first: Timer, timed: Timer) -> Timer:
    """Run `first` before `timed`, so that the processor's caches are as in a step."""

    def second() -> float:
        first()
        return timed()

    return second


def _text(length: int, vocabulary: int) -> list[int]:
    """Return `length` token ids: 50 alternating ones, or fewer in a smaller vocabulary."""
    return [(7 + n % 50) % vocabulary for n in range(length)]
