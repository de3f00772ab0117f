"""Which layers the target skips where it drafts for itself: a search by measured speed.

The paper lets Bayesian optimisation propose what to try (Draft & Verify, arXiv 2309.08168, section
3.3). Here the search climbs: it changes a few sublayers of the best choice so far, and keeps what
is faster. A choice that seems to be is measured twice, because times scatter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ouroboros_core.models.skips import Skips, generic

Speed = Callable[[Skips], float]
"""Tokens per second, measured, of a draft that skips these sublayers."""

CHANGES = (1, 1, 2, 4)
"""How many sublayers a new choice has changed; drawn anew each time."""


@dataclass(frozen=True)
class Found:
    """The fastest choice, its tokens per second, and how many were tried."""

    skips: Skips
    speed: float
    tried: int


def changed(skips: Skips, layers: int, count: int, rng: random.Random) -> Skips:
    """The same choice with `count` sublayers, drawn at random, the other way round."""
    drawn = set(rng.sample(range(2 * layers), min(count, 2 * layers)))
    attention = frozenset(n for n in drawn if n < layers)
    mlp = frozenset(n - layers for n in drawn if n >= layers)
    return Skips(skips.attention ^ attention, skips.mlp ^ mlp)


def search(
    layers: int,
    speed: Speed,
    stop: Callable[[], bool],
    seed: int = 0,
    log: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Climb from the generic choice until `stop` says so.

    layers  of the target
    log     is told the best choice so far after each that was tried
    """
    rng = random.Random(seed)
    best = generic(layers)
    fastest, tried = speed(best), 1
    seen = {best}
    while not stop() and len(seen) < 4**layers:
        choice = changed(best, layers, rng.choice(CHANGES), rng)
        if choice in seen:
            continue
        seen.add(choice)
        measured = speed(choice)
        if measured > fastest:
            measured = min(measured, speed(choice))
        if measured > fastest:
            best, fastest = choice, measured
        tried += 1
        log(Found(best, fastest, tried))
    return Found(best, fastest, tried)
