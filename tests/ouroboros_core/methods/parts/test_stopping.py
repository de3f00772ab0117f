"""Where a drafted chain ends by each rule. The oracles are the rules' formulas over recorded
distributions, and the target's own distribution."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.methods.parts import stopping
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.methods.parts.stopping import RULES, MovingAverage, Stop, new_stop
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.settings import AUTO
from tests import tiny

PLACES = (
    (0.95, 0.05),
    (0.9, 0.1),
    (0.7, 0.3),
    (0.99, 0.01),
    (0.5, 0.5),
    (0.39, 0.31, 0.3),
    *[(0.99, 0.01)] * 4,
)
"""A draft's distribution at each place of a chain."""


class Recorded:
    """The outputs of a draft at the places of a chain."""

    def logits(self, node: int) -> Any:
        return np.log(np.array(PLACES[node]))

    def scored(self, nodes: Any, k: int) -> list[list[tuple[int, float]]]:
        return [list(enumerate(self.logits(node)))[:k] for node in nodes]


def length(stop: Stop) -> int:
    """Return how many of the likeliest tokens a chain has."""
    drafted, outputs = 0, Recorded()
    for node, place in enumerate(PLACES):
        if node == stop.length() or stop.before(outputs, node):  # type: ignore[arg-type]
            break
        drafted += 1
        if stop.behind(outputs, node, max(place)):  # type: ignore[arg-type]
            break
    return drafted


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("fixed", 9),  # gamma
        ("p_min", 2),  # 0.7 is below 0.75
        ("entropy", 3),  # sqrt(0.15 H) of (0.7, 0.3) is 0.30, of (0.9, 0.1) 0.22
        ("adaedl", 6),  # 1 - sqrt(0.2 H) of (0.5, 0.5) is 0.63, of (0.39, 0.31, 0.3) 0.53
        ("hf_constant", 6),  # behind 0.39
        ("hf_heuristic", 9),  # 20, if gamma were larger
        ("ema", 3),
    ],
)
def test_a_chain_ends_where_the_rule_says(rule: str, expected: int) -> None:
    assert length(new_stop(rule, 9)) == expected


def test_plain_numbers_end_a_draft_where_arrays_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, p_min = np.random.default_rng(2), new_stop("p_min", 4)
    for lead in np.linspace(0, 9, 600):
        row = rng.normal(size=40) * rng.random()
        row[3], row[7] = -np.inf, lead
        answers = []
        for arrays in (True, False):
            monkeypatch.setattr(stopping, "installed", lambda arrays=arrays: arrays)
            logits = row if arrays else [*row]
            outputs: Any = SimpleNamespace(logits=lambda _, logits=logits: logits)
            answers.append((stopping.entropy(outputs, 0), p_min.before(outputs, 0)))
        (nats, ends), (plain_nats, plainly_ends) = answers
        assert plain_nats == pytest.approx(nats) and plainly_ends == ends


def test_lengths_that_follow_acceptance_are_those_of_transformers_and_sglang() -> None:
    heuristic = new_stop("hf_heuristic", AUTO)
    assert heuristic.length() == 20
    for accepted, expected in ((20, 22), (3, 21), (21, 23), (0, 22)):
        heuristic.learn(heuristic.length(), accepted)
        assert heuristic.length() == expected
    for accepted, tier in ((7, 7), (3, 5), (0, 1)):
        average = MovingAverage(16)
        for _ in range(60):
            average.learn(average.length(), min(accepted, average.length()))
        assert average.length() == tier
    early = MovingAverage(16)
    for _ in range(MovingAverage.WARM_UP):
        early.learn(3, 0)
    assert early.length() == 3, "nothing moves while it warms up"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("q", [(0.5, 0.5), (0.35, 0.65)])
def test_the_text_follows_the_target_whatever_ends_the_drafts(
    rule: str, q: tuple[float, float]
) -> None:
    """A rule that left out a drawn token because of what it is would write 0.85 for 0.7."""
    sampler = Sampler(Sampling(temperature=1.0, seed=4, acceptance="rejection"), 2)
    kind = methods.get("speculative")
    chosen = kind.Hyperparameters.parse({"gamma": 4, "stop": rule})
    method = methods.create(kind, chosen, Resources(sampler, _Constant(q)))
    counts = Counter[int]()
    for step in decode(_Constant((0.7, 0.3)), method, [0], max_new_tokens=2500, sampler=sampler):
        counts.update(step.tokens)
    total = counts.total()
    assert abs(counts[0] - 0.7 * total) < 4 * (0.21 * total) ** 0.5


class _Constant:
    """A model with the same distribution after every text."""

    name, vocabulary, max_length, share = "constant", 2, 10**9, 0.5

    def __init__(self, p: tuple[float, float]) -> None:
        self._logits = np.log(np.array(p))
        self.passes = self.rows = 0

    def forget(self) -> None: ...

    def reserve(self, tokens: int) -> None: ...

    def prefill(self, context: Any, candidates: int = 0) -> Any:
        return {}

    def evaluate(self, _: Any, tree: Any) -> Any:
        self.passes += 1
        self._nodes = len(tree)
        return self

    def extend(self, _: Any, tree: Any) -> Any:
        return self.evaluate((), tree)

    def plain(self, _: Any) -> Any: ...

    def argmax(self) -> list[int]:
        return [int(self._logits.argmax())] * self._nodes

    def scored(self, nodes: Any, k: int) -> list[list[tuple[int, float]]]:
        order = np.argsort(-self._logits)[:k].tolist()
        return [[(token, float(self._logits[token])) for token in order] for _ in nodes]

    def confidence(self, _: int, token: int) -> float:
        return float(np.exp(self._logits[token]))

    def logits(self, _: int) -> Any:
        return self._logits


@pytest.mark.parametrize("rule", RULES)
def test_greedy_text_is_that_of_generate(rule: str) -> None:
    target, draft = tiny.pair("llama")
    prompt, kind = tiny.prompt(), methods.get("speculative")
    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    chosen = kind.Hyperparameters.parse({"gamma": 6, "stop": rule})
    method = methods.create(kind, chosen, Resources(sampler, draft))
    steps = list(decode(target, method, prompt, max_new_tokens=40, sampler=sampler))
    assert tiny.emitted(steps) == tiny.generated(target.model, prompt, 40)
    assert all(len(step.tree.proposals) <= 6 for step in steps)
