"""Times what passes cost here; `loading.costs` keeps it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ouroboros_core.adaptive.cost_model import LONG_CONTEXT, SHORT_CONTEXT, Costs, PassCosts
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain

Timer = Callable[[], float]
"""Does something, and says how many seconds it took."""

Kind = tuple[Callable[[Any, int, int], Timer], Any, tuple[int, ...]]
"""Who times a drafter's passes: by drafter, rows and tokens before it; the drafter; and the rows,
ascending."""

TARGET_ROWS, DRAFT_ROWS, HEAD_ROWS = (1, 2, 4, 8, 16, 32), (1, 4, 16, 32), (4, 8)

SECONDS = 6.0
"""How long all of it may take, at least two rounds provided."""

ROUNDS, PROBES = 12, 5


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


def pass_of(model: LanguageModel, rows: int, length: int) -> Timer:
    """Times a pass over a chain of so many rows, behind a context of so many tokens."""
    context = _text(length)
    tree = tree_of(rows, context[-1])

    def timed() -> float:
        begun = time.perf_counter()
        model.evaluate(context, tree).argmax()
        return time.perf_counter() - begun

    return timed


def pass_seconds(models: Sequence[tuple[LanguageModel, int]], repeats: int = 24) -> list[float]:
    """Median seconds of a pass of each (model, rows), timed in turn behind the same context of 100
    tokens."""
    timers = [pass_of(model, rows, SHORT_CONTEXT) for model, rows in models]
    return [statistics.median(found) for found in in_turn(timers, repeats, float("inf"))]


def level_of(head: Drafter, rows: int, length: int) -> Timer:
    """Times a pass of a head over so many rows, siblings below the root; one row: the pass that
    reads the last token."""
    context = _text(length)
    siblings = TreeBuilder(context[-1])
    for token in range(rows):
        siblings.add(token, 0, Provenance(Source.DRAFT))
    root, tree = TreeBuilder(context[-1]).build(), siblings.build()

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
    head: Drafter | None,
    heads: Mapping[str, Drafter] | None = None,
    seconds: float = SECONDS,
) -> Costs:
    """Time the passes of a pair, in rounds that end after so many seconds, but not before the
    third.

    More rows never count as cheaper than fewer, nor does a longer context add less to more rows. A
    drafter's passes are timed behind its first one of a step, and that one behind a pass of the
    target.
    """
    kinds = _kinds(target, draft, head, heads)
    short, long = lengths_for(target, draft)
    near = _least(kinds, short, 0.35 * seconds)
    later = _later(kinds, near, short, 0.3 * seconds)
    # The long context is then in the caches, where the passes behind it need it.
    reading = {"target": _reading(target, long), "draft": _reading(draft, long) if draft else 0.0}
    far = _least(kinds, long, 0.35 * seconds)
    costs = {}
    for kind, one in near.items():
        longer = _further(one.seconds, far[kind].seconds)
        read, more = reading.get(kind, 0.0), later.get(kind, 0.0)
        costs[kind] = replace(one, far=longer, reading=read, behind=more)
    _as_new(kinds)
    return Costs(costs.pop("target"), costs.pop("draft", None), costs.pop("head", None), costs)


def first_passes(
    target: LanguageModel,
    draft: LanguageModel | None,
    head: Drafter | None,
    heads: Mapping[str, Drafter] | None = None,
) -> dict[str, float]:
    """Median seconds of a few of each model's first passes of a step, by kind: what
    `drafting(1, 1)` of the measured costs is."""
    kinds = _kinds(target, draft, head, heads)
    timers = _firsts(kinds, lengths_for(target, draft)[0])
    taken = in_turn([*timers.values()], PROBES, SECONDS)
    _as_new(kinds)
    return dict(zip(timers, map(statistics.median, taken), strict=True))


def lengths_for(target: LanguageModel, draft: LanguageModel | None) -> tuple[int, int]:
    """SHORT_CONTEXT and LONG_CONTEXT; of a model that cannot hold these, twice what it can."""
    most = min(model.max_length for model in (target, draft) if model) - TARGET_ROWS[-1]
    short = min(SHORT_CONTEXT, most)
    return (short, LONG_CONTEXT) if most > LONG_CONTEXT else (short, short)


def _kinds(
    target: LanguageModel,
    draft: LanguageModel | None,
    head: Drafter | None,
    heads: Mapping[str, Drafter] | None,
) -> dict[str, Kind]:
    """What of a pair is timed, the target first."""
    trained = {"head": head, **(heads or {})}
    kinds: dict[str, Kind] = {"target": (pass_of, target, TARGET_ROWS)}
    kinds |= {"draft": (pass_of, draft, DRAFT_ROWS)} if draft else {}
    return kinds | {kind: (level_of, one, HEAD_ROWS) for kind, one in trained.items() if one}


def _as_new(kinds: Mapping[str, Kind]) -> None:
    """Forget what was timed."""
    for _, model, _ in kinds.values():
        model.forget()
        model.passes = model.rows = 0


def _least(kinds: Mapping[str, Kind], length: int, seconds: float) -> dict[str, PassCosts]:
    """What passes cost behind a context of so many tokens."""
    timers: dict[tuple[str, int], Timer] = {}
    plain = pass_of(kinds["target"][1], 1, length)
    for kind, (timed, model, counts) in kinds.items():
        passes = {(kind, rows): timed(model, rows, length) for rows in counts}
        if kind != "target":
            # Before each level of a head there is its first pass, see `level_of`.
            before = timed(model, 1, length) if timed is pass_of else plain
            passes = {place: _behind(before, one) for place, one in passes.items()}
        timers |= passes
    # The least of each, and of all with more rows: other work on the machine only adds to a time.
    least = dict(zip(timers, map(min, in_turn([*timers.values()], ROUNDS, seconds)), strict=True))
    found = {}
    for kind, (_, _, counts) in kinds.items():
        mine = [*accumulate((least[kind, rows] for rows in reversed(counts)), min)][::-1]
        found[kind] = PassCosts(counts, tuple(mine))
    return found


def _later(
    kinds: Mapping[str, Kind], costs: Mapping[str, PassCosts], length: int, seconds: float
) -> dict[str, float]:
    """Seconds more that each drafter's first pass of a step takes, right behind the target's."""
    firsts = _firsts(kinds, length)
    del firsts["target"]
    least = map(min, in_turn([*firsts.values()], ROUNDS, seconds))
    return {
        kind: max(0.0, first - costs[kind].seconds[0])
        for kind, first in zip(firsts, least, strict=True)
    }


def _firsts(kinds: Mapping[str, Kind], length: int) -> dict[str, Timer]:
    """Each model's first pass of a step: a plain one of the target, the others right behind it."""
    plain = pass_of(kinds["target"][1], 1, length)
    return {
        kind: plain if kind == "target" else _behind(plain, timed(model, 1, length))
        for kind, (timed, model, _) in kinds.items()
    }


def _further(near: Sequence[float], far: Sequence[float]) -> tuple[float, ...]:
    """Seconds behind the long context: what it adds to those behind the short one never falls with
    the rows, and is at least 0."""
    added = (max(0.0, long - short) for short, long in zip(near, far, strict=True))
    return tuple(map(sum, zip(near, accumulate(added, max), strict=True)))


def _behind(first: Timer, timed: Timer) -> Timer:
    """What is timed right after something else, which leaves the processor's caches as it does."""

    def both() -> float:
        first()
        return timed()

    return both


def _reading(model: LanguageModel, length: int) -> float:
    """Seconds for every token of a prompt of so many."""

    def timed() -> float:
        model.forget()
        begun = time.perf_counter()
        model.prefill(_text(length))
        return time.perf_counter() - begun

    return min(in_turn([timed], 2, float("inf"))[0]) / length


def _text(length: int) -> list[int]:
    return [7 + n % 50 for n in range(length)]
