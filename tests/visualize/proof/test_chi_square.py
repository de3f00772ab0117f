"""The chi-square test, against torch's incomplete gamma function and the printed table."""

import numpy as np
import pytest
import torch

from visualize.proof.chi_square import beyond, binomial, fit, pooled


@pytest.mark.parametrize("statistic", [1e-6, 0.3, 1.0, 2.9, 7.0, 20.0, 55.0, 300.0, 5000.0])
def test_the_p_value_is_the_upper_incomplete_gamma_function(statistic: float) -> None:
    half = torch.tensor(statistic / 2, dtype=torch.float64)
    for degrees in range(1, 60):
        a = torch.tensor(degrees / 2, dtype=torch.float64)
        expected = float(torch.special.gammaincc(a, half))
        assert beyond(statistic, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-200)


@pytest.mark.parametrize(
    ("statistic", "degrees", "chance"),
    [
        *((3.841, 1, 0.05), (5.991, 2, 0.05), (18.307, 10, 0.05), (29.588, 10, 0.001)),
        (124.342, 100, 0.05),
    ],
)
def test_the_p_value_is_that_of_the_printed_table(
    statistic: float, degrees: int, chance: float
) -> None:
    assert beyond(statistic, degrees) == pytest.approx(chance, rel=2e-3)


def test_draws_from_p_have_p_values_that_are_spread_evenly_and_others_have_not() -> None:
    random = np.random.default_rng(0)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    values = []
    for _ in range(400):
        found = fit(random.multinomial(300, p).tolist(), p.tolist())
        assert found is not None and found.degrees == 3
        values.append(found.p_value)
    shares = np.histogram(values, bins=4, range=(0, 1))[0] / 400
    assert np.abs(shares - 0.25).max() < 0.08
    wrong = fit(random.multinomial(300, [0.25] * 4).tolist(), p.tolist())
    assert wrong is not None and wrong.p_value < 1e-3


def test_what_is_expected_too_seldom_is_pooled_whatever_was_counted() -> None:
    counts, p = pooled([40, 3, 50, 7], [0.4, 0.03, 0.5, 0.07])
    assert (counts, p) == ([50, 40, 10], [0.5, 0.4, pytest.approx(0.1)])
    counts, p = pooled([0, 3, 90, 7], [0.07, 0.02, 0.9, 0.01])
    assert (counts, p) == ([90, 10], [0.9, pytest.approx(0.1)]), "too little: the next one joins"
    # Of ten draws one is too rare, and nothing is left.
    assert pooled([9, 1], [0.2, 0.8]) == ([10], [1.0])


def test_what_cannot_be_told_apart_is_not_judged_and_the_impossible_is_seen() -> None:
    assert fit([10], [1.0]) is None and fit([0, 0], [0.5, 0.5]) is None
    impossible = fit([10, 9, 1], [0.5, 0.5, 0.0])
    assert impossible is not None and impossible.p_value == 0
    alone = fit([3, 1], [1.0, 0.0])
    assert alone is not None and alone.p_value == 0, "also where one outcome alone is possible"


@pytest.mark.parametrize("p", [0.5, 0.3, 0.9, 0.999, 1.0])
def test_the_exact_test_is_the_sum_of_all_counts_that_are_no_likelier(p: float) -> None:
    """Oracle: twelve draws, one after another."""
    total, chances = 12, {0: 1.0}
    for _ in range(total):
        grown: dict[int, float] = {}
        for count, chance in chances.items():
            for more, share in ((1, p), (0, 1 - p)):
                grown[count + more] = grown.get(count + more, 0) + chance * share
        chances = grown
    for count, chance in chances.items():
        expected = sum(other for other in chances.values() if other <= chance * (1 + 1e-9))
        assert binomial(count, total, p) == pytest.approx(expected, rel=1e-9, abs=1e-300)
