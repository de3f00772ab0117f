"""Search, by measured speed, for the layers that the target skips when it drafts for itself.

The paper uses Bayesian optimisation (Draft & Verify, arXiv 2309.08168, section 3.3). Here the
search climbs: it changes a few sublayers of the best choice so far, and keeps a faster choice. A
choice that seems faster is measured twice, because times scatter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ouroboros_core.models.skips import Skips, generic

Speed = Callable[[Skips], float]
"""Tokens per second, measured, of a draft that skips these sublayers."""

CHANGES = (1, 1, 2, 4)
"""Numbers of changed sublayers, from which each new choice draws one."""


@dataclass(frozen=True)
class Fastest:
    """The fastest choice, its tokens per second, and the number of tried choices."""

    skips: Skips
    speed: float
    tried: int


def changed(skips: Skips, layers: int, count: int, rng: random.Random) -> Skips:
    """Return the choice with `count` random sublayers skipped or no longer skipped."""
    drawn = set(rng.sample(range(2 * layers), min(count, 2 * layers)))
    attention = frozenset(n for n in drawn if n < layers)
    mlp = frozenset(n - layers for n in drawn if n >= layers)
    return Skips(skips.attention ^ attention, skips.mlp ^ mlp)


def search(
    layers: int,
    speed: Speed,
    stop: Callable[[], bool],
    seed: int = 0,
    log: Callable[[Fastest], None] = lambda _: None,
) -> Fastest:
    """Climb from the generic choice until `stop` returns True, and return the fastest choice.

    layers  of the target
    log     called with the best choice so far after each tried choice
    """
    rng = random.Random(seed)
    best = generic(layers)
    fastest, tried = speed(best), 1
    measured_choices = {best}
    while not stop() and len(measured_choices) < 4**layers:
        choice = changed(best, layers, rng.choice(CHANGES), rng)
        if choice in measured_choices:
            continue
        measured_choices.add(choice)
        measured = speed(choice)
        if measured > fastest:
            measured = min(measured, speed(choice))
        if measured > fastest:
            best, fastest = choice, measured
        tried += 1
        log(Fastest(best, fastest, tried))
    return Fastest(best, fastest, tried)
