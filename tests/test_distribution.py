"""Sampling changes no probability: counts at drafted, corrected and bonus slots against the known distribution.

The model is a table: the same next-token probabilities p after every text. The draft proposes from another distribution q with
the same noise. What is emitted in a slot where a draft was tested, and in a bonus slot, must follow p.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.decoding.engine import decode
from ouroboros_core.methods.base import Resources
from ouroboros_core.sampling import Sampler, Sampling, process, softmax
from ouroboros_core.tree import TokenTree

P = np.array([1.2, 0.3, -0.5, 2.0, 0.0, 1.0])
Q = np.array([1.0, 0.9, 0.2, 1.2, -1.0, 0.4])
CHI_SQUARE_999 = {2: 13.8, 3: 16.3, 4: 18.5, 5: 20.5}
"""The 99.9% point by degrees of freedom; all draws are seeded, so the test gives the same verdict each time."""


class Table:
    name, vocabulary, max_length = "table", len(P), 10**9

    def forget(self) -> None: ...

    def __init__(self, logits: Any) -> None:
        self._logits = logits
        self.passes = 0

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Sequence[int]) -> None: ...

    def evaluate(self, _: Any, tree: TokenTree) -> Any:
        self.passes += 1
        return self

    def argmax(self) -> list[int]:
        return [int(self._logits.argmax())] * 1000

    def logits(self, _: int) -> Any:
        return self._logits


@pytest.mark.parametrize("method", ["speculative", "ouroboros", "lookahead"])
@pytest.mark.parametrize("sampling", [Sampling(temperature=0.9, seed=1), Sampling(temperature=1.3, top_k=4, top_p=0.9, seed=2)])
def test_every_slot_follows_the_targets_distribution(method: str, sampling: Sampling) -> None:
    kind = methods.get(method)
    sampler = Sampler(sampling, len(P))
    target, draft = Table(P), Table(Q)
    knobs = {"gamma": 2} if "gamma" in kind.Hyperparameters.knobs() else {}
    instance = kind(kind.Hyperparameters.parse(knobs), Resources(sampler, draft if kind.needs_draft_model else None))
    slots: dict[str, Counter[int]] = {"first tested": Counter(), "later tested": Counter(), "bonus": Counter()}
    for step in decode(target, instance, [0], max_new_tokens=20_000, sampler=sampler):
        for depth, token in enumerate(step.tokens):
            if depth < step.tested:
                slots["first tested" if depth == 0 else "later tested"][token] += 1
            elif step.path:
                slots["bonus"][token] += 1
    p = softmax(process(P, sampling))
    possible = np.flatnonzero(p)
    for name, counts in slots.items():
        total = counts.total()
        if total < 500:
            assert name == "bonus", f"the case has too few {name} slots"
            assert method != "speculative", "a chain that is accepted ends in a bonus"
            continue
        assert set(counts) <= set(possible)
        expected = total * p[possible]
        chi = float(((np.array([counts[int(t)] for t in possible]) - expected) ** 2 / expected).sum())
        assert chi < CHI_SQUARE_999[len(possible) - 1], f"{name}: {chi:.1f} over {total}"


def test_the_same_noise_makes_a_draft_agree_far_more_often_than_chance() -> None:
    """Gumbel coupling: agreement lies at or above sum(min(p, q)) / (1 + TV), and well above independent draws."""
    sampling = Sampling(temperature=1.0, seed=3)
    sampler = Sampler(sampling, len(P))
    p, q = softmax(P), softmax(Q)
    agree = np.mean([np.argmax(P + sampler.noise(n)) == np.argmax(Q + sampler.noise(n)) for n in range(5000)])
    distance = 0.5 * np.abs(p - q).sum()
    assert agree > (1 - distance) / (1 + distance) - 0.02
    assert agree > (p * q).sum() + 0.2
