"""Measurements by name, and the pieces that an ablation takes away."""

import sys

import pytest

from ouroboros_core.sampling import softmax
from scripts.measure.__main__ import NAMES, main
from scripts.measure.ablation import PIECES
from scripts.measure.marginals import chances
from tests.seeded_models import SeededModel


@pytest.mark.parametrize("name", PIECES)
def test_every_piece_can_be_taken_away(name: str) -> None:
    """A patch fails if the thing that it replaces has gone."""
    with PIECES[name]():
        pass


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_is_found_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", name, "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0


def test_an_unknown_name_gets_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", "all"])
    with pytest.raises(SystemExit, match=r"(?s)steps .*passes .*ablation"):
        main()


def test_a_guess_without_the_first_token_is_the_best_of_the_whole_mixture() -> None:
    """The oracle sums over all pairs of tokens."""
    model, context = SeededModel(3, vocabulary=6), (1, 2)
    p = softmax(model.after(context))
    rows = [softmax(model.after((2, token))) for token in range(6)]
    alone = max(sum(p[x] * rows[x][y] for x in range(6)) for y in range(6))
    knowing = sum(p[x] * max(rows[x]) for x in range(6))
    assert chances(model, context) == pytest.approx((alone, knowing))
    assert alone < knowing
