"""Times what passes cost here; `loading.costs` keeps it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ouroboros_core.adaptive.cost_model import CONTEXT, Costs, PassCosts
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import ROOT, Provenance, TokenTree, TreeBuilder, chain

Timer = Callable[[], float]
"""Does something, and says how many seconds it took."""

Kind = tuple[Callable[[Any, int, int], Timer], Any, tuple[int, ...]]
"""Who times a drafter's passes: by drafter, rows and tokens before it; the drafter; and the rows,
ascending."""

TARGET_ROWS, DRAFT_ROWS, HEAD_ROWS = (1, 2, 4, 8, 16, 32), (1, 4, 16, 32), (4, 8)

SECONDS = 6.0
"""How long all of it may take, at least two rounds provided."""

ROUNDS, SHORT = 12, 100
"""Rounds at most, and tokens of the context behind which tables of passes are made."""


def in_turn(timers: Sequence[Timer], rounds: int, seconds: float) -> list[list[float]]:
    """What each measures, in turn for some rounds, the first of which does not count; fewer if time
    is up."""
    taken: list[list[float]] = [[] for _ in timers]
    begun = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 2 and time.perf_counter() - begun > seconds:
            break
        for measure, found in zip(timers, taken, strict=True):
            value = measure()
            found.extend([value] if turn else [])
    return taken


def tree_of(rows: int, root: int) -> TokenTree:
    """A chain of so many rows, the root included."""
    return chain(root, [root] * (rows - 1), Provenance(Source.DRAFT))


def siblings_of(rows: int, root: int, vocabulary: int) -> TokenTree:
    """So many rows below a root; a vocabulary that has fewer tokens is gone through again."""
    tokens = (root, *(row % vocabulary for row in range(rows)))
    return TokenTree(tokens, (-1, *[0] * rows), (ROOT, *[Provenance(Source.DRAFT)] * rows))


def pass_of(model: LanguageModel, rows: int, length: int) -> Timer:
    """Times a pass over a chain of so many rows, behind a context of so many tokens."""
    context = _text(length, model.vocabulary)
    tree = tree_of(rows, context[-1])

    def timed() -> float:
        begun = time.perf_counter()
        model.evaluate(context, tree).argmax()
        return time.perf_counter() - begun

    return timed


def pass_seconds(models: Sequence[tuple[LanguageModel, int]], repeats: int = 24) -> list[float]:
    """Median seconds of a pass of each (model, rows), timed in turn behind the same context of
    SHORT tokens."""
    timers = [pass_of(model, rows, SHORT) for model, rows in models]
    return [statistics.median(found) for found in in_turn(timers, repeats, float("inf"))]


def level_of(head: Drafter, rows: int, length: int) -> Timer:
    """Times a pass of a head over so many rows, siblings below the root; one row: the pass that
    reads the last token."""
    context = _text(length, head.vocabulary)
    root, tree = TreeBuilder(context[-1]).build(), siblings_of(rows, context[-1], head.vocabulary)

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
    """Time the passes of a pair, in rounds that end after so many seconds, but not before the
    third; of each model over the first so many row `counts`.

    More rows never count as cheaper than fewer. A drafter's passes are timed behind its first one
    of a step.
    """
    kinds: dict[str, Kind] = {"target": (pass_of, target, TARGET_ROWS[:counts])}
    kinds |= {"draft": (pass_of, draft, DRAFT_ROWS[:counts])} if draft else {}
    kinds |= {kind: (level_of, one, HEAD_ROWS[:counts]) for kind, one in (heads or {}).items()}
    length = length_for(target, draft)
    plain = pass_of(target, 1, length)
    timers: dict[tuple[str, int], Timer] = {}
    for kind, (timed, model, several) in kinds.items():
        for rows in several:
            timers[kind, rows] = one = timed(model, rows, length)
            if kind != "target":
                # Before each level of a head there is its first pass, see `level_of`.
                first = timed(model, 1, length) if timed is pass_of else plain
                timers[kind, rows] = _behind(first, one)
    # The least of each, and of all with more rows: other work on the machine only adds to a time.
    taken = in_turn([*timers.values()], ROUNDS, seconds)
    least = dict(zip(timers, map(min, taken), strict=True))
    costs = {}
    for kind, (_, model, several) in kinds.items():
        mine = [*accumulate((least[kind, rows] for rows in reversed(several)), min)][::-1]
        costs[kind] = PassCosts(several, tuple(mine))
        model.forget()
        model.passes = model.rows = 0
    return Costs(costs.pop("target"), costs.pop("draft", None), costs)


def length_for(target: LanguageModel, draft: LanguageModel | None) -> int:
    """CONTEXT, or what is left of a shorter model's positions."""
    most = min(model.max_length for model in (target, draft) if model) - TARGET_ROWS[-1]
    return min(CONTEXT, most)


def _behind(first: Timer, timed: Timer) -> Timer:
    """What is timed right after something else, which leaves the processor's caches as it does."""

    def both() -> float:
        first()
        return timed()

    return both


def _text(length: int, vocabulary: int) -> list[int]:
    """So many token ids of a vocabulary, which may be smaller than the 50 that alternate else."""
    return [(7 + n % 50) % vocabulary for n in range(length)]
