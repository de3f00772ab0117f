"""What passes cost here: timed once for a machine and a pair of models, in a few seconds, and kept
in the cache folder."""

from __future__ import annotations

import hashlib
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

from ouroboros_core.adaptive.cost_model import LONG_CONTEXT, SHORT_CONTEXT, Costs, PassCosts
from ouroboros_core.environment import Environment
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.locations import cache_folder
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, chain

log = logging.getLogger(__name__)

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
    taken = _timed(
        [_pass(model, rows, SHORT_CONTEXT) for model, rows in models], repeats, float("inf")
    )
    return [statistics.median(found) for found in taken]


def _pass(model: LanguageModel, rows: int, length: int) -> Callable[[], float]:
    context = [7 + n % 50 for n in range(length)]
    tree = tree_of(rows, context[-1])

    def timed() -> float:
        begun = time.perf_counter()
        model.evaluate(context, tree).argmax()
        return time.perf_counter() - begun

    return timed


def _level(head: Drafter, rows: int, length: int) -> Callable[[], float]:
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

    return min(_timed([timed], 3, float("inf"))[0]) / length


def _timed(timed: Sequence[Callable[[], float]], rounds: int, seconds: float) -> list[list[float]]:
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
) -> Costs:
    """Time the passes of a pair. More rows never count as cheaper than fewer, nor a longer context
    than a shorter one."""
    lengths = _lengths(target, draft)
    trained = [head, *(heads or {}).values()]
    near, far = (_at(length, target, draft, trained) for length in lengths)
    reading = [_reading(model, lengths[1]) if model else 0.0 for model in (target, draft)]
    reading += [0.0] * len(trained)
    costs = [
        PassCosts(rows, mine, tuple(map(max, mine, theirs)), read) if rows else None
        for (rows, mine), (_, theirs), read in zip(near, far, reading, strict=True)
    ]
    for model in (target, draft):
        if model is not None:
            model.forget()
            model.passes = 0
    for one in trained:
        if one is not None:
            one.forget()
            one.passes = 0
    assert costs[0] is not None
    others = {kind: cost for kind, cost in zip(heads or {}, costs[3:], strict=True) if cost}
    return Costs(costs[0], costs[1], costs[2], others)


def _lengths(target: LanguageModel, draft: LanguageModel | None) -> tuple[int, int]:
    """SHORT_CONTEXT and LONG_CONTEXT; of a model that cannot hold these, twice what it can."""
    most = min(model.max_length for model in (target, draft) if model) - TARGET_ROWS[-1]
    short = min(SHORT_CONTEXT, most)
    return (short, LONG_CONTEXT) if most > LONG_CONTEXT else (short, short)


def _at(
    length: int,
    target: LanguageModel,
    draft: LanguageModel | None,
    trained: Sequence[Drafter | None],
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """(rows, seconds) of the target's passes, the draft's and those of what is trained for the
    target, behind a context of so many tokens."""
    plans: list[tuple[tuple[int, ...], list[Callable[[], float]]]] = [
        (TARGET_ROWS, [_pass(target, rows, length) for rows in TARGET_ROWS]),
        (
            DRAFT_ROWS if draft else (),
            [_pass(draft, rows, length) for rows in DRAFT_ROWS] if draft else [],
        ),
        *(
            (
                HEAD_ROWS if head else (),
                [_level(head, rows, length) for rows in HEAD_ROWS] if head else [],
            )
            for head in trained
        ),
    ]
    # The least of each, and of all with more rows: other work on the machine only adds to a time.
    found = [*map(min, _timed([one for _, timed in plans for one in timed], ROUNDS, SECONDS / 2))]
    result = []
    for rows, timed in plans:
        mine, found = found[: len(timed)], found[len(timed) :]
        result.append((rows, tuple(accumulate(reversed(mine), min))[::-1]))
    return result


def costs_of(
    environment: Environment,
    target: LanguageModel,
    draft: LanguageModel | None,
    head: Drafter | None,
    how: str,
    heads: Mapping[str, Drafter] | None = None,
) -> Costs:
    """What passes cost, from the cache folder if they were timed before on this machine with this
    pair.

    how    says which passes compute, so that others are timed anew
    heads  what is trained for the target beside the EAGLE head, by kind
    """
    others = [f"{kind} {one.name}" for kind, one in (heads or {}).items()]
    known = (target.name, draft.name if draft else None, head.name if head else None, how)
    names = (*known, *others)
    key = hashlib.sha256(repr((asdict(environment), names)).encode()).hexdigest()[:16]
    file = cache_folder() / "costs" / f"{key}.json"
    try:
        return read_costs(json.loads(file.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    costs = measure(target, draft, head, heads)
    try:
        _write(file, costs)
    except (
        OSError
    ) as error:  # a folder that cannot be written to costs two seconds at each start, no more
        log.warning("what passes cost here is not kept: %s", error)
    return costs


def read_costs(data: dict[str, Any]) -> Costs:
    """What `costs_of` keeps as JSON; raises KeyError, TypeError or ValueError for anything else."""
    parts = [data[name] for name in ("target", "draft", "head")]
    target, draft, head = (_part(p) for p in parts)
    others = {kind: _part(part) for kind, part in data.get("heads", {}).items()}
    every = (target, draft, head, *others.values())
    if target is None or not all(s > 0 for p in every if p for s in p.seconds):
        raise ValueError("these are no costs")
    return Costs(target, draft, head, {kind: part for kind, part in others.items() if part})


def _part(data: dict[str, Any] | None) -> PassCosts | None:
    if not data:
        return None
    return PassCosts(
        tuple(map(int, data["rows"])),
        tuple(data["seconds"]),
        tuple(data["far"]),
        float(data["reading"]),
    )


def _write(file: Path, costs: Costs) -> None:
    """Whole or not at all, also where two processes write."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as scratch:
        json.dump(asdict(costs), scratch)
    Path(scratch.name).replace(file)
