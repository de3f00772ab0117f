"""What each piece of the policy earns: what is taken away is there."""

from __future__ import annotations

import pytest

from scripts.ablation import PIECES


@pytest.mark.parametrize("name", PIECES)
def test_every_piece_can_be_taken_away(name: str) -> None:
    """A patch fails where what it replaces has gone."""
    with PIECES[name]():
        pass
