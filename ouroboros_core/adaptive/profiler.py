"""Times what passes cost here; `loading.costs` keeps it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from ouroboros_core.adaptive.cost_model import LONG_CONTEXT, SHORT_CONTEXT, Costs, PassCosts
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain

TARGET_ROWS = (1, 2, 4, 8, 16, 32)
DRAFT_ROWS = (1, 4, 16, 32)
HEAD_ROWS = (1, 4, 8)

SECONDS = 4.0
"""How long all of it may take, at least two rounds provided."""

ROUNDS = 12


def tree_of(rows: int, root: int) -> TokenTree:
    """A chain of so many rows, the root included."""
    return chain(root, [root] * (rows - 1), Provenance(Source.DRAFT))


def pass_seconds(models: Sequence[tuple[LanguageModel, int]], repeats: int = 24) -> list[float]:
    """Median seconds of a pass of each (model, rows), timed in turn behind the same context of 100
    tokens."""
    taken = in_turn(
        [pass_of(model, rows, SHORT_CONTEXT) for model, rows in models], repeats, float("inf")
    )
    return [statistics.median(found) for found in taken]


def pass_of(model: LanguageModel, rows: int, length: int) -> Callable[[], float]:
    """Times a pass over a chain of so many rows, behind a context of so many tokens."""
    context = [7 + n % 50 for n in range(length)]
    tree = tree_of(rows, context[-1])

    def timed() -> float:
        begun = time.perf_counter()
        model.evaluate(context, tree).argmax()
        return time.perf_counter() - begun

    return timed


def rows_that_gain(
    model: LanguageModel, choose: Callable[[bool], None], counts: Sequence[int]
) -> int:
    """Up to which of some ascending numbers of rows a pass is faster with `choose(True)` than with
    `choose(False)`, timed in turn; 0 if it never is."""
    found = 0
    for rows in counts:
        timed = pass_of(model, rows, SHORT_CONTEXT)

        def one(way: bool, timed: Callable[[], float] = timed) -> float:
            choose(way)
            return timed()

        mine, other = in_turn([partial(one, True), partial(one, False)], ROUNDS, SECONDS / 4)
        if min(mine) >= min(other):
            break
        found = rows
    return found


def level_of(head: Drafter, rows: int, length: int) -> Callable[[], float]:
    """A pass of a head over so many rows, siblings below the root; one row: the pass that reads the
    last token."""
    context = [7 + n % 50 for n in range(length)]
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


def _reading(model: LanguageModel, length: int) -> float:
    """Seconds for every token of a prompt of so many."""
    prompt = [7 + n % 50 for n in range(length)]

    def timed() -> float:
        model.forget()
        begun = time.perf_counter()
        model.prefill(prompt)
        return time.perf_counter() - begun

    return min(in_turn([timed], 2, float("inf"))[0]) / length


def in_turn(timed: Sequence[Callable[[], float]], rounds: int, seconds: float) -> list[list[float]]:
    """What each measures, in turn for some rounds, the first of which does not count; fewer if time
    is up."""
    taken: list[list[float]] = [[] for _ in timed]
    begun = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 2 and time.perf_counter() - begun > seconds:
            break
        for measure, found in zip(timed, taken, strict=True):
            value = measure()
            found.extend([value] if turn else [])
    return taken


def measure(
    target: LanguageModel,
    draft: LanguageModel | None,
    head: Drafter | None,
    heads: Mapping[str, Drafter] | None = None,
    seconds: float = SECONDS,
) -> Costs:
    """Time the passes of a pair, in rounds that end after so many seconds, but not before the
    third.

    More rows never count as cheaper than fewer, but behind a head's first row, nor a longer context
    than a shorter one. A draft's passes are timed behind one another, and one of them behind a pass
    of the target, as the first of a step runs; a head's behind the target's.
    """
    lengths = lengths_for(target, draft)
    trained = [head, *(heads or {}).values()]
    near = _at(lengths[0], target, draft, trained, 0.4 * seconds)
    # The long context is then in the caches, where the passes behind it need it.
    reading = [_reading(model, lengths[1]) if model else 0.0 for model in (target, draft)]
    far = _at(lengths[1], target, draft, trained, 0.4 * seconds)
    reading += [0.0] * len(trained)
    later = _later(target, draft, lengths[0], 0.2 * seconds) if draft else 0.0
    behind = [0.0, later, *(0.0 for _ in trained)]
    costs = [
        PassCosts(rows, mine, tuple(map(max, mine, theirs)), read, more) if rows else None
        for (rows, mine), (_, theirs), read, more in zip(near, far, reading, behind, strict=True)
    ]
    for one in (target, draft, *trained):
        if one is not None:
            as_new(one)
    assert costs[0] is not None
    costs[0] = replace(costs[0], far=_further(costs[0].seconds, costs[0].far))
    others = {kind: cost for kind, cost in zip(heads or {}, costs[3:], strict=True) if cost}
    return Costs(costs[0], costs[1], costs[2], others)


def _further(near: Sequence[float], far: Sequence[float]) -> tuple[float, ...]:
    """Seconds behind the long context: what it adds to those behind the short one never falls with
    the rows."""
    added = (long - short for short, long in zip(near, far, strict=True))
    return tuple(map(sum, zip(near, accumulate(added, max), strict=True)))


def as_new(model: Drafter) -> None:
    """Forget what was timed."""
    model.forget()
    model.passes = model.rows = 0


def lengths_for(target: LanguageModel, draft: LanguageModel | None) -> tuple[int, int]:
    """SHORT_CONTEXT and LONG_CONTEXT; of a model that cannot hold these, twice what it can."""
    most = min(model.max_length for model in (target, draft) if model) - TARGET_ROWS[-1]
    short = min(SHORT_CONTEXT, most)
    return (short, LONG_CONTEXT) if most > LONG_CONTEXT else (short, short)


def _at(
    length: int,
    target: LanguageModel,
    draft: LanguageModel | None,
    trained: Sequence[Drafter | None],
    seconds: float,
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """(rows, seconds) of the target's passes, the draft's, each behind another one of its own, and
    those of what is trained for the target, behind a context of so many tokens."""
    plain = pass_of(target, 1, length)
    plans: list[tuple[tuple[int, ...], list[Callable[[], float]]]] = [
        (TARGET_ROWS, [pass_of(target, rows, length) for rows in TARGET_ROWS]),
        ((), []),
    ]
    if draft:
        own = pass_of(draft, 1, length)
        plans[1] = DRAFT_ROWS, [_behind(own, pass_of(draft, n, length)) for n in DRAFT_ROWS]
    for head in trained:
        levels = [_behind(plain, level_of(head, n, length)) for n in HEAD_ROWS] if head else []
        plans.append((HEAD_ROWS if head else (), levels))
    # The least of each, and of all with more rows: other work on the machine only adds to a time.
    taken = in_turn([one for _, timed in plans for one in timed], ROUNDS, seconds)
    found = [min(times) for times in taken]
    result = []
    for rows, timed in plans:
        mine, found = found[: len(timed)], found[len(timed) :]
        # A head's pass over one row reads the text, too: it may well take longer than a wider one.
        alone = 1 if rows is HEAD_ROWS else 0
        wider = [*accumulate(reversed(mine[alone:]), min)][::-1]
        result.append((rows, (*mine[:alone], *wider)))
    return result


def _later(target: LanguageModel, draft: LanguageModel, length: int, seconds: float) -> float:
    """Seconds more that a draft pass takes behind the target's than behind another of its own."""
    own = pass_of(draft, 1, length)
    firsts = pass_of(target, 1, length), own
    behind, along = in_turn([_behind(first, own) for first in firsts], ROUNDS, seconds)
    return max(0.0, min(behind) - min(along))


def _behind(first: Callable[[], float], timed: Callable[[], float]) -> Callable[[], float]:
    """What is timed right after something else, which leaves the processor's caches as it does."""

    def both() -> float:
        first()
        return timed()

    return both
