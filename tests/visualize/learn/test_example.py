"""The worked example, recomputed by hand and by random draws."""

import numpy as np
import pytest

from ouroboros_core.rules.parts.candidates import pick
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TreeBuilder
from tests.visualize.learn.recorded import RULES
from visualize.learn.example import rule_facts, sibling_draws


def test_the_rates_of_the_worked_example_are_those_of_random_draws() -> None:
    """Draft and target choose with the same Gumbel numbers, the likeliest sum wins."""
    p, q = np.array([0.3, 0.5, 0.2]), np.array([0.6, 0.2, 0.2])
    noise = np.random.default_rng(1).gumbel(size=(200_000, 3))
    same = (np.log(p) + noise).argmax(1) == (np.log(q) + noise).argmax(1)
    facts = rule_facts()
    assert facts == pytest.approx(RULES)
    assert facts["shared_guess"] == pytest.approx(same.mean(), abs=0.005)


def test_two_guesses_of_the_worked_example_come_out_as_the_target_wants_it() -> None:
    """By hand: the 30 rejected suns are followed by 15 rain and 15 snow; the residual is all rain,
    so the snow is rejected and becomes rain. And by the rule itself, with random draws."""
    found = sibling_draws()
    assert found["rows"] == [
        ["sun", 30, 30, 0, 0, 0, 30],
        ["rain", 50, 20, 15, 15, 15, 50],
        ["snow", 20, 20, 15, 0, 0, 20],
    ]
    p, q, counts, accepted = np.array([0.3, 0.5, 0.2]), np.array([0.6, 0.2, 0.2]), [0, 0, 0], 0
    rng, draws = np.random.default_rng(2), 4000
    for _ in range(draws):
        first = rng.choice(3, p=q)
        others = np.where(np.arange(3) == first, 0, q) / (1 - q[first])
        second = rng.choice(3, p=others)
        builder = TreeBuilder(0)
        for token, drawn_from in ((first, q), (second, others)):
            builder.add(int(token), 0, Provenance(Source.DRAFT), drawn_from)
        child, left = pick(builder.build(), 0, [1, 2], p, rng, None)
        accepted += child is not None
        counts[rng.choice(3, p=left) if child is None else (first, second)[child - 1]] += 1
    assert np.array(counts) / draws == pytest.approx(p, abs=0.03)
    assert accepted / draws == pytest.approx(RULES["two_guesses"], abs=0.03)
